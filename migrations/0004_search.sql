-- Full-text indexes of titles and of message texts.
--
-- The trigram tokenizer finds any part of a text from three characters on. Chinese, Japanese and Thai have no spaces
-- between words, so unicode61 would take a whole clause for one word and find only its start; and parts of words
-- (the "fenster" in "Schaufenster", names in code) are what people look for. The price is an index of about three
-- times the text. Queries of one or two characters have no trigram: they read the texts themselves.
--
-- External content: the texts stay in their tables and are not stored twice. An answer enters the index once, when
-- it ends: while it streams, its text is in answer_pieces.

CREATE VIRTUAL TABLE title_search USING fts5 (
    title, content = 'conversations', content_rowid = 'id', tokenize = 'trigram remove_diacritics 1'
);

CREATE VIRTUAL TABLE message_search USING fts5 (
    text, content = 'messages', content_rowid = 'id', tokenize = 'trigram remove_diacritics 1'
);

CREATE TRIGGER title_search_insert AFTER INSERT ON conversations BEGIN
    INSERT INTO title_search (rowid, title) VALUES (new.id, new.title);
END;

CREATE TRIGGER title_search_update AFTER UPDATE OF title ON conversations WHEN old.title IS NOT new.title BEGIN
    INSERT INTO title_search (title_search, rowid, title) VALUES ('delete', old.id, old.title);
    INSERT INTO title_search (rowid, title) VALUES (new.id, new.title);
END;

CREATE TRIGGER title_search_delete AFTER DELETE ON conversations BEGIN
    INSERT INTO title_search (title_search, rowid, title) VALUES ('delete', old.id, old.title);
END;

CREATE TRIGGER message_search_insert AFTER INSERT ON messages BEGIN
    INSERT INTO message_search (rowid, text) VALUES (new.id, new.text);
END;

CREATE TRIGGER message_search_update AFTER UPDATE OF text ON messages WHEN old.text IS NOT new.text BEGIN
    INSERT INTO message_search (message_search, rowid, text) VALUES ('delete', old.id, old.text);
    INSERT INTO message_search (rowid, text) VALUES (new.id, new.text);
END;

CREATE TRIGGER message_search_delete AFTER DELETE ON messages BEGIN
    INSERT INTO message_search (message_search, rowid, text) VALUES ('delete', old.id, old.text);
END;

INSERT INTO title_search (title_search) VALUES ('rebuild');

INSERT INTO message_search (message_search) VALUES ('rebuild');
