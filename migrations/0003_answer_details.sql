-- What a model thought before an answer, kept apart from it, and what was recorded of its tokens.

ALTER TABLE messages ADD COLUMN thinking_tokens INTEGER NOT NULL DEFAULT 0;

ALTER TABLE messages ADD COLUMN thinking TEXT NOT NULL DEFAULT '';

ALTER TABLE answer_pieces ADD COLUMN thinking_tokens INTEGER NOT NULL DEFAULT 0;

ALTER TABLE answer_pieces ADD COLUMN thinking TEXT NOT NULL DEFAULT '';

-- A table of its own: opening a conversation reads none of it, and it can be many times the size of the text.
CREATE TABLE token_details (
    message_id   INTEGER PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
    details_json TEXT    NOT NULL
) STRICT;
