DROP TABLE daily_index;
