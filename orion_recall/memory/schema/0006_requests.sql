-- Answers to requests go when they are old.
CREATE INDEX memory_requests_by_time ON memory_requests (at);
