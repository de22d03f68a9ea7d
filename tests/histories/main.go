// Histories judges what the soak and the simulator of redlatch recorded, with models that share
// nothing with the checkers of the simulator. docs/contributing/testing.md tells how to run it.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	refused := flag.Bool("refused", false, "demand that each history is refused")
	folder := flag.String("pictures", "", "a folder for a picture of each refused stretch")
	made := flag.Int("make", 0, "write a history of so many operations into the file, and exit")
	flag.Parse()
	if *made > 0 {
		if err := makeHistory(flag.Arg(0), *made); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		return
	}
	good := flag.NArg() > 0
	for _, path := range flag.Args() {
		accepted, err := report(path, *folder)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
		}
		good = good && err == nil && accepted != *refused
	}
	if !good {
		os.Exit(1)
	}
}

// report judges a file and prints the verdict. A history that shows nothing is an error.
func report(path, folder string) (accepted bool, err error) {
	began := time.Now()
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	history, err := read(file)
	if err != nil {
		return false, err
	}
	sum := judge(history, folder)
	if sum.operations == 0 {
		return false, fmt.Errorf("there are no operations")
	}
	fmt.Printf("%s: %d operations of %d names, %d without effect, judged in %.1f s\n", path,
		sum.operations, sum.names, len(history.Attempts), time.Since(began).Seconds())
	show(fmt.Sprintf("two servers explain, in %d takeovers:", history.takeovers()), sum.expected)
	show("REFUSED", sum.refused)
	if len(sum.undecided) > 0 {
		return false, fmt.Errorf("undecided after %v: %v", patience, sum.undecided)
	}
	return len(sum.refused) == 0, nil
}

func show(what string, all []string) {
	for i, one := range all {
		if i == 5 {
			fmt.Printf("  and %d more\n", len(all)-i)
			return
		}
		fmt.Println(" ", what, one)
	}
}

func (history *History) takeovers() (count int) {
	for _, fault := range history.Faults {
		if fault.Takeover != nil {
			count++
		}
	}
	return count
}
