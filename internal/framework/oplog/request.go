package oplog

import (
	"context"
	"strconv"
	"strings"
)

// Request is a request that is about to be sent.
type Request struct {
	ID     string // from RequestID; "" takes the next
	Method string
	Path   string // below /api2/json
	Server string // the endpoint's URL
	Write  bool
}

// Send records that a request is sent. The caller must call the returned function with the status of the answer, 0 if
// none came.
func Send(ctx context.Context, r Request) (context.Context, func(status int)) {
	o := From(ctx)
	if o == nil {
		return ctx, func(int) {}
	}
	o.note(func() {
		if r.Write {
			o.sum.Writes++
		} else {
			o.sum.Reads++
		}
	})
	if r.ID == "" {
		r.ID = o.RequestID()
	}
	o.log(ctx, PVE, LevelTrace, "PVE request sent",
		map[string]string{"request": r.ID, "method": r.Method, "path": r.Path, "endpoint": r.Server})
	w := o.begin(Answer, "an answer to "+r.Method+" "+r.Path)
	var span Span
	if o.config.Tracer != nil {
		ctx, span = o.config.Tracer.Begin(ctx, r.Method+" "+route(r.Path), append(places(r.Path), Text("request.id", r.ID),
			Text("http.request.method", r.Method), Text("url.path", r.Path), Text("server.address", r.Server))...)
	}
	return ctx, func(status int) {
		o.end(w)
		failed := ""
		switch {
		case status == 0:
			failed = "no answer"
		case status >= 400:
			failed = strconv.Itoa(status)
		}
		finish(span, failed, Number("http.response.status_code", int64(status)))
	}
}

// Run records a command over SSH. The caller must call the returned function with its success.
func Run(ctx context.Context, node, command string) (context.Context, func(ok bool)) {
	o := From(ctx)
	if o == nil {
		return ctx, func(bool) {}
	}
	o.note(func() { o.sum.Commands++ })
	w := o.begin(Command, "a command on node "+node+": "+command)
	ctx, span := o.span(ctx, "SSH command", Text("pve.node", node))
	return ctx, func(ok bool) {
		o.end(w)
		failed := "failed"
		if ok {
			failed = ""
		}
		finish(span, failed)
	}
}

// route returns a path with placeholders for names, the same for every VM.
func route(path string) string {
	parts := strings.Split(path, "/")
	for i := 1; i < len(parts); i++ {
		if name := named(parts[i-1]); name != "" {
			parts[i] = "{" + name + "}"
		}
	}
	return strings.Join(parts, "/")
}

// named returns the kind of name that follows a part of a path; "" for none.
func named(part string) string {
	switch part {
	case "nodes":
		return "node"
	case "qemu", "lxc":
		return "vmid"
	case "storage":
		return "storage"
	case "content":
		return "volume"
	case "tasks":
		return "upid"
	case "snapshot":
		return "snapname"
	case "pools":
		return "poolid"
	case "rules":
		return "pos"
	case "resources":
		return "sid"
	}
	return ""
}

// places returns the node, the VM and the task that a path names.
func places(path string) []Attribute {
	var all []Attribute
	parts := strings.Split(path, "/")
	for i := 1; i < len(parts); i++ {
		switch named(parts[i-1]) {
		case "node":
			all = append(all, Text("pve.node", parts[i]))
		case "vmid":
			if vmid, err := strconv.ParseInt(parts[i], 10, 64); err == nil {
				all = append(all, Number("pve.vmid", vmid))
			}
		case "upid":
			all = append(all, Text("pve.upid", parts[i]))
		}
	}
	return all
}
