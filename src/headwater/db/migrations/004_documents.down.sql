DROP TABLE documents;
DROP TABLE texts;
