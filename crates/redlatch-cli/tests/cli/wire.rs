//! A way to the server that can be cut.

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::support::World;

/// A way to the server that can be cut: connections stay, and nothing passes any more.
pub(crate) struct Wire {
    pub(crate) url: String,
    cut: watch::Sender<bool>,
    asked: watch::Sender<bool>,
}

impl Wire {
    pub(crate) async fn to(world: &World) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let target = world.url().trim_start_matches("redis://").to_owned();
        let (cut, is_cut) = watch::channel(false);
        let (asked, _) = watch::channel(false);
        let ask = asked.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (target, mut is_cut) = (target.clone(), is_cut.clone());
                let ask = ask.clone();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(target).await.unwrap();
                    let silent = async {
                        is_cut.wait_for(|&cut| cut).await.unwrap();
                    };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        () = silent => {}
                    }
                    if near.readable().await.is_ok() {
                        ask.send_replace(true);
                    }
                    // The connection stays, and is never answered.
                    std::future::pending::<()>().await;
                });
            }
        });
        Self { url, cut, asked }
    }

    /// Waits until something is sent on a connection that was cut.
    pub(crate) async fn asked(&self) {
        let mut asked = self.asked.subscribe();
        asked.wait_for(|&asked| asked).await.unwrap();
    }

    /// Lets new connections pass. Those that were cut stay so.
    pub(crate) fn mend(&self) {
        self.cut.send_replace(false);
    }

    pub(crate) fn cut(&self) {
        self.cut.send_replace(true);
    }
}
