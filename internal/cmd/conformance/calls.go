package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// identities are the short names of who asked.
var identities = []struct{ recorded, name string }{
	{"root@pam!tf API token", "token"}, {"root@pam token", "token"}, {"root@pam ticket", "root"}, {"no credentials", "none"},
	{"root@pam!sep API token", "separated"}, {"terraform@pve!prov API token", "provider"}, {"limited@pve!ro API token", "auditor"},
	{"root@pam!tf with WRONG secret", "wrong secret"}, {"token of a nonexistent user", "unknown user"},
	{"nonexistent token of root@pam", "unknown token"}, {"malformed token", "malformed token"}, {"root on the node", "node"},
}

func identity(recorded string) (string, error) {
	for _, i := range identities {
		if strings.HasPrefix(recorded, i.recorded) {
			return i.name, nil
		}
	}
	return "", fmt.Errorf("unknown identity %q", recorded)
}

// calls converts the sequence of requests.
func calls(rows []object) ([]object, error) {
	f := newForms(rows)
	var out []object
	for _, row := range rows {
		o, err := f.call(row)
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", row.number("seq"), err)
		}
		out = append(out, o)
	}
	return out, nil
}

func (f *forms) call(row object) (object, error) {
	if row.text("method") == "SHELL" {
		return shell(row), nil
	}
	as, err := identity(row.text("auth"))
	if err != nil {
		return nil, err
	}
	n := row.number("seq")
	path, err := url.PathUnescape(row.text("path"))
	if err != nil {
		return nil, err
	}
	o := object{
		"n": row["seq"], "as": quote(as), "case": quote(row.text("case")), "status": row["status"],
		"do": quote(row.text("method") + " " + f.path(path)), "area": quote(area(as, row.text("method"), path, row.number("status"))),
	}
	if o["with"], err = f.params(row["params"], row.number("status")); err != nil {
		return nil, err
	}
	if string(o["with"]) == "{}" {
		delete(o, "with")
	}
	if row.text("reason") != "OK" {
		o["reason"] = quote(f.string("", row.text("reason")))
	}
	if err := f.body(o, row); err != nil {
		return nil, err
	}
	if at := f.time(row); at > 0 {
		o["at"] = json.RawMessage(strconv.FormatInt(at, 10))
	}
	if row.has("task") {
		var task object
		if err := json.Unmarshal(row["task"], &task); err != nil {
			return nil, err
		}
		log, err := f.value("log", task["log"])
		if err != nil {
			return nil, err
		}
		var lines []string
		if json.Unmarshal(task["log"], &lines) == nil && len(lines) > 0 && !strings.HasPrefix(lines[len(lines)-1], "TASK ") {
			o["page"] = json.RawMessage("true")
		}
		o["type"], o["exit"], o["log"] = task["type"], quote(f.string("", task.text("exitstatus"))), log
	}
	if row.has("state_after") {
		if o["after"], err = f.value("", row["state_after"]); err != nil {
			return nil, err
		}
	}
	f.remember(n, row)
	return o, nil
}

// shell is what root did on the node; the suite has its own way to do the same to a simulated one.
func shell(row object) object {
	return object{"n": row["seq"], "as": quote("node"), "case": quote(row.text("case")), "do": quote("SHELL"), "area": quote("changes on the node")}
}

// body takes the answer apart. A message that is the reason phrase and a newline goes without saying.
func (f *forms) body(o, row object) error {
	var body object
	if json.Unmarshal(row["body"], &body) != nil {
		if text := row.text("body"); text != "" {
			return fmt.Errorf("body is the text %q", text)
		}
		o["empty"] = json.RawMessage("true")
		return nil
	}
	if body.has("message") && body.text("message") != row.text("reason")+"\n" {
		o["message"] = quote(f.string("", body.text("message")))
	}
	var lines []object
	if json.Unmarshal(body["data"], &lines) == nil && body.number("total") > len(lines) && strings.HasSuffix(row.text("path"), "/log") {
		o["page"] = json.RawMessage("true")
	}
	for key, raw := range body {
		switch key {
		case "message":
		case "total":
			o["total"] = quote("~number~") // of all tasks ever, or with all the lines of a log
		case "data", "errors":
			v, err := f.value(key, raw)
			if err != nil {
				return err
			}
			if key == "data" && string(v) != "null" {
				o[key] = v // also what is empty
				continue
			}
			o.set(key, v)
		default:
			return fmt.Errorf("unknown part %q of a body", key)
		}
	}
	return nil
}

func (f *forms) params(raw json.RawMessage, status int) (json.RawMessage, error) {
	var params map[string]any
	if err := json.Unmarshal(raw, &params); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for k, v := range params {
		switch v := v.(type) {
		case string:
			out[k] = strings.ReplaceAll(f.roles(v), "<password>", "{password}")
		case float64:
			out[k] = strconv.FormatFloat(v, 'f', -1, 64)
		default:
			return nil, fmt.Errorf("parameter %s is a %T", k, v)
		}
		if k == "digest" && len(out[k]) == 40 && status == 200 {
			out[k] = "{digest}"
		}
	}
	return json.Marshal(out)
}

// area is the chapter of the report that a request belongs to.
func area(as, method, path string, status int) string {
	segments := strings.Split(path, "/")
	last := segments[len(segments)-1]
	guest := len(segments) > 3 && segments[3] == "qemu"
	switch {
	case status == 501:
		return "HTTP"
	case status == 401, path == "/access/ticket":
		return "authentication"
	case status == 403, as != "token" && as != "root", strings.HasPrefix(path, "/access"):
		return "permissions"
	case strings.Contains(path, "/tasks"):
		return "tasks"
	case strings.Contains(path, "/storage"):
		return "storage"
	case strings.HasPrefix(path, "/pools"):
		return "pools"
	case !guest:
		return "cluster and nodes"
	case len(segments) == 4 && method == "POST":
		return "create"
	case method == "DELETE" && len(segments) == 5:
		return "destroy"
	case slices.Contains([]string{"clone", "template"}, last):
		return "clone and template"
	case slices.Contains(segments, "status"), slices.Contains(segments, "agent"):
		return "power and agent"
	case slices.Contains(segments, "snapshot"):
		return "snapshots"
	case slices.Contains([]string{"resize", "move_disk", "unlink"}, last):
		return "disks"
	}
	return "configuration"
}
