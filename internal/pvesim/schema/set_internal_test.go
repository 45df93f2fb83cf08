package schema

import (
	"strings"
	"testing"
)

// TestFormatsInReach: in the areas that the simulator answers for, no named format may be let through unchecked.
func TestFormatsInReach(t *testing.T) {
	set := Load()
	known := verifiers("8.4")
	checked := 0
	var visit func(where string, p *Param)
	visit = func(where string, p *Param) {
		id := strings.TrimSuffix(strings.TrimSuffix(p.Format, "-list"), "-opt")
		switch {
		case id == "", set.formats[id] != nil, known[id] != nil:
			checked++
		default:
			t.Errorf("%s: nothing checks the format %s", where, id)
		}
		for key, sub := range p.Properties {
			visit(where+"."+key, sub)
		}
	}
	for _, r := range set.Routes() {
		for _, area := range []string{
			"/nodes/{node}/qemu", "/nodes/{node}/storage", "/nodes/{node}/tasks", "/nodes/{node}/status", "/pools", "/version",
			"/cluster/resources", "/cluster/nextid", "/cluster/tasks", "/cluster/status", "/cluster/ha/resources",
			"/access/users",
			"/access/ticket", "/access/acl", "/access/roles", "/access/permissions", "/storage",
		} {
			if (r.Template == area || strings.HasPrefix(r.Template, area+"/")) && !strings.Contains(r.Template, "/firewall") {
				for name, p := range r.Params {
					visit(r.Method+" "+r.Template+" "+name, p)
				}
			}
		}
	}
	if checked < 2000 {
		t.Errorf("only %d parameters seen", checked)
	}
	for name, f := range set.formats {
		for key, p := range f.Params {
			visit(name+"."+key, p)
		}
	}
}

// TestTemplates: every template leads to its own route, whatever the variables are, and declares its variables.
func TestTemplates(t *testing.T) {
	set := Load()
	all := set.Routes()
	if len(all) != 607 { // 606 in the description and the root
		t.Errorf("%d routes", len(all))
	}
	for _, want := range all {
		var path []string
		vars := map[string]string{}
		for _, segment := range segments(want.Template) {
			if name, isVar := variable(segment); isVar {
				segment = "x-" + name
				vars[name] = segment
				if want.Params[name] == nil {
					t.Errorf("%s %s: no rule for the variable %s", want.Method, want.Template, name)
				}
			}
			path = append(path, segment)
		}
		got, gotVars, known := set.Route(want.Method, "/"+strings.Join(path, "/"))
		if !known || got != want {
			t.Errorf("%s %s: found %+v", want.Method, want.Template, got)
		}
		if len(gotVars) != len(vars) {
			t.Errorf("%s %s: variables %v, want %v", want.Method, want.Template, gotVars, vars)
		}
		for name, value := range vars {
			if gotVars[name] != value {
				t.Errorf("%s %s: variable %s is %q", want.Method, want.Template, name, gotVars[name])
			}
		}
	}
}
