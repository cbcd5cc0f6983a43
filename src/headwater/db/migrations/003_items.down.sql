DROP TABLE item_observations;
DROP TABLE items;
