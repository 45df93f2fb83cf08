// Package oplog proves that summaries, traces and waiting messages agree with the server's record.
package oplog
