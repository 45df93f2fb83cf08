package pve

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	firstPoll = 100 * time.Millisecond
	lastPoll  = 2 * time.Second
	// pollShare is the pause per task being waited for: about 500 ms each at ten.
	pollShare    = 50 * time.Millisecond
	maxLostPolls = 10
	logTail      = 10
)

// TaskResult is a task that succeeded.
type TaskResult struct {
	// Warnings is how many PVE counted; a warning is a success.
	Warnings int
	// Log is the last lines of the log, fetched only with warnings.
	Log []string
}

// Wait polls a task until it has ended. A failed task is a *TaskError with the end of its log; an empty UPID is a task
// that has ended well. A failed poll is survived, ten in a row are not: the error is then Ambiguous, since the task may
// go on. So is a task that PVE no longer knows. A ctx that ends leaves the task running.
func (c *Client) Wait(ctx context.Context, upid UPID) (TaskResult, error) {
	if upid == "" {
		return TaskResult{}, nil
	}
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	defer c.shared.invalidate()
	for lost, delay := 0, firstPoll; ; {
		status, err := c.taskStatus(ctx, upid, true)
		switch {
		case err == nil && !status.Running:
			return c.result(ctx, status)
		case err == nil:
			lost = 0
		case ctx.Err() != nil:
			return TaskResult{}, waitEnded(upid, ctx.Err())
		case IsKind(err, NotFound):
			return TaskResult{}, waitLost(upid, "its outcome is unknown", err)
		case !isLostPoll(err):
			return TaskResult{}, err
		default:
			if lost++; lost >= maxLostPolls {
				return TaskResult{}, waitLost(upid, fmt.Sprintf("%d polls in a row failed", lost), err)
			}
		}
		if err := c.clock.Sleep(ctx, c.pollPause(delay)); err != nil {
			return TaskResult{}, waitEnded(upid, err)
		}
		delay = min(delay*3/2, lastPoll)
	}
}

// pollPause stretches a pause when many tasks are being waited for.
func (c *Client) pollPause(delay time.Duration) time.Duration {
	return min(max(delay, time.Duration(c.waiting.Load())*pollShare), lastPoll)
}

// isLostPoll tells whether the next poll may succeed: no answer, a proxy's 59x, or a 5xx that says nothing known.
func isLostPoll(err error) bool {
	switch KindOf(err) {
	case Unavailable, Ambiguous, Unhealthy, Locked:
		return true
	case Unknown:
		return true
	}
	return false
}

func waitEnded(upid UPID, err error) error {
	return &Error{Op: "wait for " + upid.describe(), Message: "stopped waiting, the task may still run: " + err.Error(), Err: err}
}

func waitLost(upid UPID, why string, err error) error {
	return &Error{Op: "wait for " + upid.describe(), Kind: Ambiguous, Message: why + ": " + err.Error(), Err: err}
}

// result judges the exit status (pve-common Tools.pm upid_read_status, upid_status_is_error).
func (c *Client) result(ctx context.Context, s TaskStatus) (TaskResult, error) {
	if s.ExitStatus == "OK" {
		return TaskResult{}, nil
	}
	// Without the log the outcome is still known: its loss is no error.
	log, err := c.TaskLog(ctx, s.UPID, logTail)
	if err != nil {
		log = nil
	}
	if n, ok := warningCount(s.ExitStatus); ok {
		return TaskResult{Warnings: n, Log: log}, nil
	}
	return TaskResult{}, &TaskError{
		Op: s.UPID.describe(), UPID: s.UPID, ExitStatus: c.exitText(s.ExitStatus), Log: log, Kind: kindOfExit(s.ExitStatus),
	}
}

func warningCount(exitStatus string) (int, bool) {
	text, ok := strings.CutPrefix(exitStatus, "WARNINGS: ")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// kindOfExit: an exit status that is not the worker's own word leaves open what was done.
func kindOfExit(exitStatus string) Kind {
	for _, prefix := range []string{killedStatus, "unable to open file - ", "unable to read tail", "unable to extract last line", "unable to get last line"} {
		if strings.HasPrefix(exitStatus, prefix) {
			return Ambiguous
		}
	}
	return kindOfMessage(exitStatus)
}
