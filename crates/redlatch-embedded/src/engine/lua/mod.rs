//! Lua: the cache of scripts, and the execution of a script.

mod api;
mod convert;
mod errors;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value as LuaValue, chunk::ChunkMode};
use redlatch_core::runtime::{Reply, ServerError};

use super::{Model, call::error, core::Core};

/// The digest of a script: the SHA-1 of its text in lower-case hexadecimal.
pub(crate) type Sha = String;

/// The Lua state and the scripts compiled in it.
pub(super) struct ScriptHost {
    lua: Lua,
    env: Table,
    run: Function,
    /// The compiled scripts.
    scripts: BTreeMap<Sha, Compiled>,
    /// The functions of the compiled scripts. They are kept on Lua's side, because the number of
    /// handles to Lua values is limited.
    bodies: Table,
}

/// A compiled script.
struct Compiled {
    /// The index in `bodies`.
    place: usize,
    /// Whether the server knows the script. A flushed script need not be compiled again, because a
    /// script leaves no state in its function.
    known: bool,
}

impl ScriptHost {
    pub(super) fn new(core: Arc<Mutex<Core>>, model: Model) -> Self {
        #[expect(
            clippy::expect_used,
            reason = "the prelude is a constant that the tests run"
        )]
        Self::build(core, model).expect("the prelude runs")
    }

    /// Compiles a script unless it is known. Returns its digest.
    pub(super) fn load(&mut self, source: &[u8]) -> Result<Sha, ServerError> {
        let sha = sha1_hex(source);
        if let Some(script) = self.scripts.get_mut(&sha) {
            script.known = true;
            return Ok(sha);
        }
        let compiled = self.compile(source);
        let place = compiled.map_err(|error| errors::compile(&error))?;
        let script = Compiled { place, known: true };
        self.scripts.insert(sha.clone(), script);
        Ok(sha)
    }

    pub(super) fn knows(&self, sha: &str) -> bool {
        self.scripts.get(sha).is_some_and(|script| script.known)
    }

    pub(super) fn flush(&mut self) {
        let scripts = self.scripts.values_mut();
        scripts.for_each(|script| script.known = false);
        if self.scripts.len() > KEPT {
            self.scripts.clear();
            // Clearing a table fails only by a metamethod, and this table has none.
            drop(self.bodies.clear());
        }
    }

    /// Runs a known script.
    pub(super) fn run(&self, sha: &str, keys: &[&[u8]], argv: &[&[u8]]) -> Reply {
        let Some(script) = self.scripts.get(sha).filter(|script| script.known) else {
            return Err(error("NOSCRIPT No matching script. Please use EVAL."));
        };
        let (ok, value) = self
            .call(script.place, keys, argv)
            .map_err(|failure| error(&format!("ERR the script engine failed: {failure}")))?;
        if ok {
            return convert::to_reply(&value);
        }
        let line = value.as_string().map(|text| text.as_bytes().to_vec());
        Err(convert::error_line(&line.unwrap_or_default()))
    }

    fn compile(&self, source: &[u8]) -> mlua::Result<usize> {
        let chunk = self.lua.load(source).set_name(CHUNK);
        let chunk = chunk.set_mode(ChunkMode::Text);
        let body = chunk.set_environment(self.env.clone()).into_function()?;
        let place = self.bodies.raw_len() + 1;
        self.bodies.raw_set(place, body)?;
        Ok(place)
    }

    fn call(&self, place: usize, keys: &[&[u8]], argv: &[&[u8]]) -> mlua::Result<(bool, LuaValue)> {
        let body: Function = self.bodies.raw_get(place)?;
        let [keys, argv] = [keys, argv].map(|items| convert::list(&self.lua, items));
        self.run.call((body, keys?, argv?))
    }

    fn build(core: Arc<Mutex<Core>>, model: Model) -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let options = LuaOptions::new().catch_rust_panics(false);
        let lua = Lua::new_with(libraries, options)?;
        let host = api::table(&lua, &core, model)?;
        let prelude = lua.load(include_str!("prelude.lua"));
        let prelude = prelude.set_name("=redlatch-embedded");
        let (env, run) = prelude.call((host,))?;
        let bodies = lua.create_table()?;
        Ok(Self {
            lua,
            env,
            run,
            scripts: BTreeMap::new(),
            bodies,
        })
    }
}

/// Returns the SHA-1 of some bytes in lower-case hexadecimal.
pub(crate) fn sha1_hex(bytes: &[u8]) -> Sha {
    sha1_smol::Sha1::from(bytes).digest().to_string()
}

/// The chunk name of every script in Lua, as on servers.
const CHUNK: &str = "@user_script";

/// The number of scripts above which a flush drops the compiled functions.
const KEPT: usize = 256;
