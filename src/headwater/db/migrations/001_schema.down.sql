DROP FUNCTION is_quiet;
DROP FUNCTION find_documents;
DROP TABLE api_tokens, delivery_log, deliveries, reported_documents, webhooks, feed_addresses, saved_searches, change_state, changes, alarm_state, extraction_days, alarms, story_state, story_keys, story_documents, canonical_state, canonical_attempts, category_links,
    index_changes, search_index, search_state, search_configurations, document_search, document_revisions, site_memory, unused_raw_files, source_sizes, documents, texts, budget_spending, budgets,
    started_programs, source_days, poll_log, history_marks, history, runs, days_read, daily_index, item_observations, items,
    ended_urls, source_urls, frontier_counts, fetch_log, watches, sightings, frontier_queue, url_frontier, host_state, source_permits, poll_state, sources;
DROP SEQUENCE document_versions;
DROP FUNCTION queue_index_changes, raise_document_version, make_search_marks, record_changed_documents, record_new_documents, update_days, make_topics, count_deleted_items, count_new_items, count_deleted_documents, count_changed_documents,
    count_new_documents, count_deleted_urls, count_changed_urls, count_new_urls;
