//! `redlatch top`: what is held, live on a terminal.

mod columns;
mod screen;

use std::{future::Future, pin::Pin, time::Duration};

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};
use redlatch::{Client, Object, ObjectHolder};
use redlatch_core::family::Internals;
use tokio::{
    select,
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use self::screen::{Mode, Screen};
use super::{
    break_hold::{How, check, end},
    hold::by_user,
    ls::all,
};
use crate::app::{
    args::{ServerArgs, TopArgs},
    exit::Failure,
    job::Signals,
    out, session,
};

/// Runs the verb.
pub(crate) async fn run(server: &ServerArgs, args: &TopArgs) -> Result<u8, Failure> {
    if args.every < Duration::from_millis(100) {
        return Err(Failure::usage("--every is at least 100ms"));
    }
    if !out::is_interactive() {
        return Err(Failure::usage(
            "top needs a terminal; without one, use ls --watch",
        ));
    }
    let client = session::look(server, &by_user("redlatch top")).await?;
    // From here on a signal would leave the terminal as it is during the display.
    let mut signals = Signals::listen()?;
    let mut terminal = ratatui::try_init()
        .map_err(|error| Failure::own(format!("the terminal cannot be used: {error}")))?;
    let shown = signals.during(show(&client, args, &mut terminal)).await;
    ratatui::restore();
    session::close(&client).await;
    shown?.map(|()| 0)
}

/// Something that is asked of the server while keys are read.
type Pending<T> = Pin<Box<dyn Future<Output = T>>>;

/// Resolves with the result of what is pending; never without.
async fn done<T>(pending: &mut Option<Pending<T>>) -> T {
    let Some(asked) = pending else {
        return std::future::pending().await;
    };
    let result = asked.await;
    *pending = None;
    result
}

async fn show(
    client: &Client,
    args: &TopArgs,
    terminal: &mut DefaultTerminal,
) -> Result<(), Failure> {
    let mut screen = Screen::new(args.held);
    let mut events = keys();
    let mut ticks = interval(args.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut look: Option<Pending<_>> = None;
    let mut breaking: Option<Pending<_>> = None;
    loop {
        select! {
            _ = ticks.tick(), if look.is_none() => {
                let (client, pattern) = (client.clone(), args.pattern.clone());
                look = Some(Box::pin(async move { all(&client, &pattern).await }));
            }
            (found, missing) = done(&mut look) => {
                if missing.is_none() || !found.is_empty() {
                    screen.update(found);
                }
                // The server may be back at the next look.
                if let Some(error) = missing {
                    screen.say(error.to_string());
                }
            },
            said = done(&mut breaking) => screen.say(said),
            event = events.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    match press(&mut screen, key) {
                        Then::Go => {}
                        Then::End => return Ok(()),
                        Then::Break(_) if breaking.is_some() => {
                            screen.say("the last request is not answered yet".to_owned());
                        }
                        Then::Break(hold) => {
                            let (object, holder) = *hold;
                            let name = out::clean(&object.name);
                            screen.say(format!("asking for the end of {name}"));
                            breaking = Some(Box::pin(break_hold(client.clone(), object, holder)));
                        }
                    }
                }
                Some(_) => {}
                None => return Err(Failure::own("the terminal sends no more keys")),
            },
        }
        terminal
            .draw(|frame| screen.draw(frame))
            .map_err(|error| Failure::own(format!("the terminal cannot be used: {error}")))?;
    }
}

/// Reads keys in a thread of its own, which ends with the process.
fn keys() -> mpsc::Receiver<Event> {
    let (send, receive) = mpsc::channel(16);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if send.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receive
}

/// The request of a key besides another picture.
enum Then {
    Go,
    End,
    /// The end of this hold.
    Break(Box<(Object, ObjectHolder)>),
}

/// Acts on a key.
fn press(screen: &mut Screen, key: KeyEvent) -> Then {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return Then::End;
    }
    match (screen.mode, key.code) {
        (Mode::Filtering, KeyCode::Enter) => screen.set_mode(Mode::Looking),
        (Mode::Filtering, KeyCode::Esc) => {
            screen.filter.clear();
            screen.mode = Mode::Looking;
        }
        (Mode::Filtering, KeyCode::Backspace) => drop(screen.filter.pop()),
        (Mode::Filtering, KeyCode::Char(letter)) => screen.filter.push(letter),
        (Mode::Asking, KeyCode::Char('y')) => {
            let asked = screen.asked.clone();
            screen.set_mode(Mode::Looking);
            match asked {
                Some(hold) => return Then::Break(Box::new(hold)),
                None => screen.say("the hold is over".to_owned()),
            }
        }
        (Mode::Asking, _) => {
            screen.set_mode(Mode::Looking);
            screen.say("nothing was broken".to_owned());
        }
        (Mode::Looking, KeyCode::Char('q') | KeyCode::Esc) => return Then::End,
        (Mode::Details, KeyCode::Enter | KeyCode::Esc | KeyCode::Char('q')) => {
            screen.set_mode(Mode::Looking);
        }
        (Mode::Looking, KeyCode::Enter) => screen.set_mode(Mode::Details),
        (Mode::Looking, KeyCode::Char('h')) => screen.switch_wanted(),
        (Mode::Looking, KeyCode::Char('/')) => screen.set_mode(Mode::Filtering),
        (Mode::Looking, KeyCode::Char('j') | KeyCode::Down) => screen.go_down(),
        (Mode::Looking, KeyCode::Char('k') | KeyCode::Up) => screen.go_up(),
        (Mode::Looking, KeyCode::Char('b')) => match screen.chosen() {
            Some((object, _)) => match check(object, How::AfterLease) {
                Ok(()) => screen.set_mode(Mode::Asking),
                Err(failure) => screen.say(failure.message),
            },
            None => screen.say("that is not held".to_owned()),
        },
        _ => {}
    }
    Then::Go
}

/// Forbids the renewal of a hold, and says what came of it.
async fn break_hold(client: Client, object: Object, holder: ObjectHolder) -> String {
    let note = client.note_end(&holder.owner, &object.name, holder.token, None);
    let _ = note.await;
    match end(&client, &object, &holder, How::AfterLease).await {
        Ok(true) => format!("{} is not renewed any more", out::clean(&object.name)),
        Ok(false) => "the hold was over already".to_owned(),
        Err(failure) => failure.message,
    }
}
