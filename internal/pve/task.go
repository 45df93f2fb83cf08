package pve

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/transport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// TaskStatus is the state of one task.
type TaskStatus struct {
	UPID UPID
	// Running is whether the worker process still exists.
	Running bool
	// ExitStatus is "OK", "WARNINGS: n", the error's text or "unexpected status"; empty while running.
	ExitStatus string
	// User is user@realm; TokenID the token's id when a token started it.
	User, TokenID string
	// Type and ID are as in the UPID.
	Type, ID string
	// StartTime is by the node's clock.
	StartTime time.Time
}

// HasSucceeded reports whether the task has ended well, perhaps with warnings (pve-common Tools.pm
// upid_status_is_error).
func (s TaskStatus) HasSucceeded() bool {
	_, warned := warningCount(s.ExitStatus)
	return s.ExitStatus == "OK" || warned
}

type taskStatusWire struct {
	UPID       wire.String `json:"upid"`
	Status     wire.String `json:"status"`
	ExitStatus wire.String `json:"exitstatus"`
	User       wire.String `json:"user"`
	TokenID    wire.String `json:"tokenid"`
	Type       wire.String `json:"type"`
	ID         wire.String `json:"id"`
	StartTime  wire.Int    `json:"starttime"`
}

func taskPath(upid UPID, rest string) string {
	return "/nodes/" + upid.Node() + "/tasks/" + string(upid) + rest
}

// Status asks the task's node. A task that does not exist is NotFound; a token sees only its own tasks, others are
// Denied without Sys.Audit on the node (pve-manager API2/Tasks.pm).
func (t TaskReader) Status(ctx context.Context, upid UPID) (TaskStatus, error) {
	status, err := t.client.taskStatus(ctx, upid, false)
	status.ExitStatus = t.client.exitText(status.ExitStatus)
	return status, err
}

// exitText is an exit status without secrets. PVE's own fixed words stay, whatever the password is.
func (c *Client) exitText(exitStatus string) string {
	if exitStatus == fault.KilledStatus {
		return exitStatus
	}
	return c.conn.Redact(exitStatus)
}

// taskStatus is TaskStatus with the exit status as it came.
func (c *Client) taskStatus(ctx context.Context, upid UPID, once bool) (TaskStatus, error) {
	op := "read the status of " + upid.Describe()
	if !upid.Valid() {
		return TaskStatus{}, &Error{Op: op, Kind: Invalid, Message: "not a UPID"}
	}
	r := &transport.Request{Op: op, Method: http.MethodGet, Path: taskPath(upid, "/status"), Once: once}
	oplog.From(ctx).Poll()
	w, err := read[taskStatusWire](ctx, c, r)
	if err != nil {
		return TaskStatus{}, err
	}
	return TaskStatus{
		UPID: upid, Running: w.Status != "stopped", ExitStatus: string(w.ExitStatus),
		User: string(w.User), TokenID: string(w.TokenID), Type: string(w.Type), ID: string(w.ID),
		StartTime: unixTime(w.StartTime),
	}, nil
}

func unixTime(seconds wire.Int) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// logLine is one line of a task log, counted from 1.
type logLine struct {
	N wire.Int    `json:"n"`
	T wire.String `json:"t"`
}

// logWire is a task's log: a list, but a single object when the log file is missing (pve-common Tools.pm dump_logfile).
type logWire []logLine

// UnmarshalJSON takes a list of lines or a single one.
func (l *logWire) UnmarshalJSON(b []byte) error {
	var lines []logLine
	if err := json.Unmarshal(b, &lines); err != nil {
		var line logLine
		if json.Unmarshal(b, &line) != nil {
			return err
		}
		lines = []logLine{line}
	}
	*l = lines
	return nil
}

// Log gives the last lines of a task's log, oldest first, at most limit (1 or more). The error is a NotFound if PVE has
// removed the log: it answers with a line that says so (pve-common Tools.pm dump_logfile), and still lists the task
// (pve-manager bin/pveupdate cleanup_tasks).
func (t TaskReader) Log(ctx context.Context, upid UPID, limit int) ([]string, error) {
	op := "read the log of " + upid.Describe()
	if !upid.Valid() || limit < 1 {
		return nil, &Error{Op: op, Kind: Invalid, Message: "not a UPID, or no line wanted"}
	}
	r := &transport.Request{Op: op, Method: http.MethodGet, Path: taskPath(upid, "/log")}
	var lines logWire
	for start, try := 0, 0; try < 2; try++ {
		r.Params = Params{"start": strconv.Itoa(start), "limit": strconv.Itoa(limit)}
		env, err := t.client.do(ctx, r)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(env.Data, &lines); err != nil {
			return nil, t.client.conn.BadAnswer(r, http.StatusOK, err)
		}
		// A log longer than one page is asked for again at its end: "total" counts its lines.
		if start = int(env.Total) - limit; start <= 0 {
			break
		}
	}
	out := make([]string, 0, len(lines))
	for _, line := range lines {
		out = append(out, t.client.conn.Redact(string(line.T)))
	}
	if len(out) != 1 {
		return out, nil
	}
	switch {
	case out[0] == "no content":
		return nil, nil
	case strings.HasPrefix(out[0], "unable to open file - "):
		return nil, &Error{Op: op, Kind: NotFound, Message: out[0]}
	}
	return out, nil
}

// Stop asks the worker to end and waits up to 5 s for it before PVE kills it (pve-common RESTEnvironment.pm
// check_worker). A worker that ends in time cleans up after itself. Stopping a task that has ended is no error.
func (t TaskClient) Stop(ctx context.Context, upid UPID) error {
	op := "stop " + upid.Describe()
	if !upid.Valid() {
		return &Error{Op: op, Kind: Invalid, Message: "not a UPID"}
	}
	return t.client.change(ctx, op, http.MethodDelete, taskPath(upid, ""), nil)
}

// TaskFilter narrows a list of tasks; zero values do not filter.
type TaskFilter struct {
	// VMID matches the task's id exactly; a clone is found under its source.
	VMID int
	// Type is PVE's task type, exactly.
	Type string
	// Since is the earliest start, by the node's clock.
	Since time.Time
	// User is a part of the user's name, in any case. PVE compares it to user@realm without the token's id.
	User string
	// RunningOnly leaves out tasks that have ended.
	RunningOnly bool
}

// Task is one entry of a list of tasks.
type Task struct {
	UPID UPID
	// Status is "" or "RUNNING" while it runs, then as TaskStatus.ExitStatus.
	Status    string
	StartTime time.Time
	EndTime   time.Time // zero while it runs
}

// Running tells whether the task had not ended.
func (t Task) Running() bool { return t.Status == "" || t.Status == "RUNNING" }

type taskWire struct {
	UPID      wire.String `json:"upid"`
	Status    wire.String `json:"status"`
	StartTime wire.Int    `json:"starttime"`
	EndTime   wire.Int    `json:"endtime"`
}

// maxTasks is more than a node keeps. Not 0: for this call that means none (pve-manager API2/Tasks.pm node_tasks).
const maxTasks = 2000

// List lists tasks of a node that this identity may see: all with Sys.Audit, else its own.
func (t TaskReader) List(ctx context.Context, node string, f TaskFilter) ([]Task, error) {
	p := Params{"source": "all", "limit": strconv.Itoa(maxTasks)}
	if f.RunningOnly {
		p["source"] = "active"
	}
	if f.VMID != 0 {
		p["vmid"] = strconv.Itoa(f.VMID)
	}
	if f.Type != "" {
		p["typefilter"] = f.Type
	}
	if !f.Since.IsZero() {
		p["since"] = strconv.FormatInt(f.Since.Unix(), 10)
	}
	if f.User != "" {
		p["userfilter"] = f.User
	}
	list, err := fetch[[]taskWire](ctx, t.client, "list the tasks of node "+node, "/nodes/"+node+"/tasks", p)
	if err != nil {
		return nil, err
	}
	tasks := make([]Task, 0, len(list))
	for _, w := range list {
		tasks = append(tasks, Task{UPID: UPID(w.UPID), Status: t.client.exitText(string(w.Status)),
			StartTime: unixTime(w.StartTime),
			EndTime:   unixTime(w.EndTime)})
	}
	if f.RunningOnly {
		// "active" is a file that also holds tasks which ended a moment ago.
		tasks = slices.DeleteFunc(tasks, func(t Task) bool { return !t.Running() })
	}
	return tasks, nil
}
