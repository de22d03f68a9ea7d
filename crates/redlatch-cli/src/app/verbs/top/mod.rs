//! `redlatch top`: what is held, live on a terminal.

mod screen;

use std::{collections::BTreeMap, time::Duration};

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};
use redlatch::{Client, Object};
use tokio::{
    select,
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use self::screen::{Mode, Screen};
use super::break_hold::{How, check, end};
use crate::app::{
    args::{ServerArgs, TopArgs},
    exit::Failure,
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
    let client = session::connect(server, "redlatch top").await?;
    let mut terminal = ratatui::try_init()
        .map_err(|error| Failure::own(format!("the terminal cannot be used: {error}")))?;
    let shown = show(&client, args, &mut terminal).await;
    ratatui::restore();
    session::close(&client).await;
    shown.map(|()| 0)
}

async fn show(
    client: &Client,
    args: &TopArgs,
    terminal: &mut DefaultTerminal,
) -> Result<(), Failure> {
    let mut screen = Screen::default();
    let mut events = keys();
    let mut ticks = interval(args.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        select! {
            _ = ticks.tick() => match all(client, &args.pattern).await {
                Ok(all) => screen.update(all),
                // The server may be back at the next look.
                Err(error) => screen.say(error.to_string()),
            },
            event = events.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if press(client, &mut screen, key).await {
                        return Ok(());
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

async fn all(client: &Client, pattern: &str) -> Result<BTreeMap<String, Object>, redlatch::Error> {
    let mut walk = client.objects(pattern);
    let mut found = BTreeMap::new();
    while let Some(object) = walk.next().await {
        let object = object?;
        found.insert(object.name.clone(), object);
    }
    Ok(found)
}

/// Acts on a key. Returns true if the display is to end.
async fn press(client: &Client, screen: &mut Screen, key: KeyEvent) -> bool {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return true;
    }
    match (screen.mode(), key.code) {
        (Mode::Filtering, KeyCode::Enter) => screen.set_mode(Mode::Looking),
        (Mode::Filtering, KeyCode::Esc) => screen.filter_by(String::new()),
        (Mode::Filtering, KeyCode::Backspace) => screen.rub_out(),
        (Mode::Filtering, KeyCode::Char(letter)) => screen.type_in(letter),
        (Mode::Asking, KeyCode::Char('y')) => {
            let said = break_chosen(client, screen).await;
            screen.set_mode(Mode::Looking);
            screen.say(said);
        }
        (Mode::Asking, _) => {
            screen.set_mode(Mode::Looking);
            screen.say("nothing was broken".to_owned());
        }
        (Mode::Looking, KeyCode::Char('q') | KeyCode::Esc) => return true,
        (Mode::Looking, KeyCode::Char('/')) => screen.set_mode(Mode::Filtering),
        (Mode::Looking, KeyCode::Char('j') | KeyCode::Down) => screen.go_down(),
        (Mode::Looking, KeyCode::Char('k') | KeyCode::Up) => screen.go_up(),
        (Mode::Looking, KeyCode::Char('b')) => match screen.chosen() {
            Some((object, _)) => match check(object, How::AfterLease) {
                Ok(()) => screen.set_mode(Mode::Asking),
                Err(failure) => screen.say(failure.message),
            },
            None => screen.say("nobody holds that".to_owned()),
        },
        _ => {}
    }
    false
}

/// Forbids the renewal of the chosen hold, and says what came of it.
async fn break_chosen(client: &Client, screen: &Screen) -> String {
    let Some((object, holder)) = screen.asked() else {
        return "the hold is over".to_owned();
    };
    match end(client, object, holder, How::AfterLease).await {
        Ok(true) => format!("{} is not renewed any more", out::clean(&object.name)),
        Ok(false) => "the hold was over already".to_owned(),
        Err(failure) => failure.message,
    }
}
