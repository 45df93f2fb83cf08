package task

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Routes are the routes of tasks.
func Routes() engine.Routes {
	return engine.Routes{
		"GET /nodes/{node}/tasks":               listTasks,
		"GET /nodes/{node}/tasks/{upid}":        engine.SubdirIndex("name", "log", "status"),
		"GET /nodes/{node}/tasks/{upid}/status": taskStatus,
		"GET /nodes/{node}/tasks/{upid}/log":    taskLog,
		"DELETE /nodes/{node}/tasks/{upid}":     stopTask,
		"GET /cluster/tasks":                    clusterTasks,
	}
}

// upidForm is pve-common UPID.pm's pattern.
const upidForm = `^UPID:([a-zA-Z0-9][a-zA-Z0-9\-.]*):([0-9A-Fa-f]{8}):([0-9A-Fa-f]{8,9}):([0-9A-Fa-f]{8}):` +
	`([^:\s]+):([^:\s]*):([^:\s]+):$`

// findTask finds the task of a request; it is nil if that node does not know it.
func findTask(r *engine.Request) (*state.Task, error) {
	upid := r.Params["upid"]
	if ok, err := regexp.MatchString(upidForm, upid); err != nil || !ok {
		return nil, perl.Invalid("upid", "unable to parse worker upid")
	}
	t := r.W.Tasks[upid]
	if t != nil && t.Node != r.Params["node"] {
		t = nil
	}
	return t, nil
}

func mayTask(r *engine.Request, owner string, t *state.Task, priv string) error {
	if t != nil && engine.OwnTask(r.Auth, t) || t == nil && owner == r.Auth.ID {
		return nil
	}
	return r.Check("/nodes/"+r.Params["node"], priv)
}

// owner is the user part of a UPID.
func owner(upid string) string {
	parts := strings.Split(upid, ":")
	return parts[len(parts)-2]
}

// describeTask are the parts of a UPID as the API gives them: a token's task has user and tokenid.
func describeTask(t *state.Task) map[string]any {
	parts := strings.Split(t.UPID, ":")
	hex := func(i int) int64 {
		n, _ := strconv.ParseInt(parts[i], 16, 64)
		return n
	}
	data := map[string]any{
		"upid": t.UPID, "node": t.Node, "type": t.Type, "id": t.ID,
		"pid": hex(2), "pstart": hex(3), "starttime": hex(4),
	}
	user, token, isToken := strings.Cut(t.User, "!")
	data["user"] = user
	if isToken {
		data["tokenid"] = token
	}
	return data
}

func taskStatus(r *engine.Request) (any, error) {
	t, err := findTask(r)
	if err != nil {
		return nil, err
	}
	if err := mayTask(r, owner(r.Params["upid"]), t, "Sys.Audit"); err != nil {
		return nil, err
	}
	if t == nil {
		return nil, perl.Invalid("upid", "no such task")
	}
	data := describeTask(t)
	data["status"] = "running"
	if !t.Running {
		data["status"], data["exitstatus"] = "stopped", t.ExitStatus
	}
	return data, nil
}

// taskLog is GET …/log: limit 0 means all lines; one line stands in for an empty or missing log (Tools.pm,
// dump_logfile).
func taskLog(r *engine.Request) (any, error) {
	t, err := findTask(r)
	if err != nil {
		return nil, err
	}
	if err := mayTask(r, owner(r.Params["upid"]), t, "Sys.Audit"); err != nil {
		return nil, err
	}
	if r.Flag("download") && (r.Params["start"] != "" || r.Params["limit"] != "") {
		return nil, perl.Die("'download' cannot be used together with 'start' or 'limit' parameters")
	}
	line := func(n int, text string) map[string]any { return map[string]any{"n": n, "t": text} }
	r.Extra = map[string]any{"total": 1}
	if t == nil {
		return line(1, "unable to open file - No such file or directory"), nil // no list: Tools.pm returns the line itself
	}
	if len(t.Log) == 0 {
		return []any{line(1, "no content")}, nil
	}
	r.Extra["total"] = len(t.Log)
	start, limit := perl.Number(r.Params["start"]), 50
	if v, ok := r.Params["limit"]; ok {
		limit = perl.Number(v)
	}
	list := []any{}
	for i := start; i < len(t.Log) && (limit == 0 || len(list) < limit); i++ {
		list = append(list, line(i+1, t.Log[i]))
	}
	return list, nil
}

// stopTask is DELETE …/tasks/{upid}: SIGTERM, up to five seconds of patience, then SIGKILL (RESTEnvironment.pm,
// check_worker). It says nothing about what became of the task.
func stopTask(r *engine.Request) (any, error) {
	t, err := findTask(r)
	if err != nil {
		return nil, err
	}
	if err := mayTask(r, owner(r.Params["upid"]), t, "Sys.Modify"); err != nil {
		return nil, err
	}
	if t == nil {
		return nil, perl.Invalid("upid", "no such task")
	}
	w := r.Engine.Workers[t.UPID]
	if w == nil {
		return nil, nil
	}
	if w.ThirdParty {
		r.Engine.EndThirdParty(t, "received interrupt")
		return nil, nil
	}
	w.Terminate = true
	r.Engine.Wait(5*time.Second, func() bool { return !t.Running })
	w.Kill = t.Running
	return nil, nil
}
