package pve

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
)

const (
	// firstPause is how old a task of a type that this Client has not seen end yet is when it is looked at first. A worker that has
	// to be forked, loaded and locked is never faster.
	firstPause   = 200 * time.Millisecond
	shortPause   = 100 * time.Millisecond
	longPause    = 2 * time.Second
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

// Wait looks at a task again and again until it has ended. A failed task is a *TaskError with the end of its log; an empty UPID
// is a task that has ended well. A failed look is survived, ten in a row are not: the error is then Ambiguous, since the task
// may go on. So is a task that PVE no longer knows. A ctx that ends leaves the task running.
func (c *Client) Wait(ctx context.Context, upid UPID) (TaskResult, error) {
	if upid == "" {
		return TaskResult{}, nil
	}
	if !upid.Valid() {
		return TaskResult{}, &Error{Op: "wait for " + upid.describe(), Kind: Invalid, Message: "not a UPID"}
	}
	ctx, over := account.Wait(ctx, account.Task, "task "+string(upid), account.Text("pve.upid", string(upid)),
		account.Text("pve.node", upid.Node()))
	defer over()
	defer c.waits.begin(upid)()
	defer c.noteTask(upid)
	begin, lost := c.clock.Now(), 0
	for look := 0; ; look++ {
		due, err := c.untilDue(ctx, upid, begin, look)
		if err != nil {
			return TaskResult{}, waitEnded(upid, err)
		}
		status, err := c.look(ctx, upid, due, look)
		switch {
		case err == nil && !status.Running:
			if status.ExitStatus == "OK" {
				c.waits.learn(upid.Type(), due.Sub(begin)+c.waits.lead(), look)
			}
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
	}
}

// untilDue waits for the next look at a task and says for when it was due. The first one is sent so that PVE makes it when tasks of this
// type have mostly ended; later ones come after a share of the time that has passed, so that a task of any length costs few looks and is
// noticed soon after its end.
func (c *Client) untilDue(ctx context.Context, upid UPID, begin time.Time, look int) (time.Time, error) {
	usual, known := c.waits.usual(upid.Type())
	now := c.clock.Now()
	pause := now.Sub(begin) / 2
	switch {
	case look == 0 && c.ServerTime().Sub(upid.Start()) > longPause: // it runs since long, or has ended
		pause = 0
	case look == 0:
		pause = max(min(usual, longPause)-c.waits.lead(), 0)
	case known:
		pause = max(min(pause, usual/8), pause/4, shortPause)
	default:
		pause = max(pause, shortPause)
	}
	due := c.waits.together(upid.Node(), now.Add(min(pause, longPause)))
	return due, c.clock.Sleep(ctx, due.Sub(now))
}

// look asks for a task by itself, or finds it in a listing that serves everybody who waits for one of the node.
func (c *Client) look(ctx context.Context, upid UPID, due time.Time, look int) (TaskStatus, error) {
	if look%ownLook != ownLook-1 {
		if status, ok := c.listed(ctx, upid, due); ok {
			return status, nil
		}
	}
	return c.taskStatus(ctx, upid, true)
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
	for _, prefix := range []string{killedStatus, "unable to open file - ", "unable to read tail", "unable to extract last line",
		"unable to get last line"} {
		if strings.HasPrefix(exitStatus, prefix) {
			return Ambiguous
		}
	}
	return kindOfMessage(exitStatus)
}
