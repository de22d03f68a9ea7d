package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// rateSession is redis_rate as its documentation has it. It limits a rate, so a pair is one check, and nothing is released.
type rateSession struct {
	limiter *redis_rate.Limiter
}

func connectRate(url string) (session, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(options)
	if err := client.Ping(context.Background()).Err(); err != nil {
		return nil, err
	}
	return rateSession{redis_rate.NewLimiter(client)}, nil
}

func (rateSession) verbs() string {
	return "evalsha,eval,hello,client|setinfo,client|maint_notifications"
}

func (s rateSession) lock(name string) lock {
	return check{s.limiter, name}
}

type check struct {
	limiter *redis_rate.Limiter
	name    string
}

// The rate is that of src/contender/gcra.rs.
func (c check) acquire(time.Time) (bool, error) {
	limit := redis_rate.Limit{Rate: 1_000, Burst: 1_000_000, Period: time.Second}
	result, err := c.limiter.Allow(context.Background(), c.name, limit)
	if err == nil && result.Allowed == 0 {
		err = errors.New("redis_rate has refused")
	}
	return err == nil, err
}

func (check) release() error {
	return nil
}
