-- Settings are JSON whose shape the app owns; the database checks nothing about it.

CREATE TABLE app_settings (
    key           TEXT    PRIMARY KEY,
    value_json    TEXT    NOT NULL,
    updated_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE conversation_settings (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversations (id) ON DELETE CASCADE,
    settings_json   TEXT    NOT NULL,
    updated_at_ms   INTEGER NOT NULL
) STRICT;

CREATE TABLE drafts (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversations (id) ON DELETE CASCADE,
    text            TEXT    NOT NULL,
    updated_at_ms   INTEGER NOT NULL
) STRICT;
