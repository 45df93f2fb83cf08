package schema

import (
	"sort"
	"strings"
)

// Route is the rule of one method on one path.
type Route struct {
	Method, Template string
	// Params are all parameters, path variables included. Indexed ones ("net[n]") stand there expanded ("net0" … "net31").
	Params map[string]*Param
	// Permissions says who may call; nil means the user root@pam only.
	Permissions *Permission
	// ProxyToNode: the node that receives the request forwards it to the node named in the path.
	ProxyToNode bool
	// Protected: executed by pvedaemon as root, so bound by pveproxy's 30 s limit.
	Protected bool
	// AllowToken: callable with an API token, else with a ticket only.
	AllowToken bool
	// AnyParam: parameters that the rule does not name are let through (one index method only).
	AnyParam bool
}

// Permission says which callers may call a method. A caller is let through if User covers it or Check holds.
type Permission struct {
	// User is "all" (every authenticated user), "world" (no credentials needed) or empty.
	User string
	// Check is nil if User alone decides.
	Check *Check
}

// Check is one node of a permission expression (access-control RPCEnvironment.pm, exec_api2_perm_check).
type Check struct {
	// Op is "and", "or", "perm", "perm-modify", "userid-param" or "userid-group".
	Op string
	// Args are the operands of and/or.
	Args []*Check
	// Path is the ACL path of perm and perm-modify, with {parameter} templates.
	Path string
	// Privs are what perm and userid-group ask for; all of them unless Any.
	Privs []string
	// Any: one of Privs is enough.
	Any bool
	// Param is the argument of userid-param: "self" or a privilege on the realm of the user in {userid}.
	Param string
	// Options are the further key/value words of perm and userid-group ("require_param", "groups_param").
	Options map[string]string
}

func permission(raw any) *Permission {
	m, ok := raw.(map[string]any)
	if !ok {
		return nil
	}
	p := &Permission{}
	p.User, _ = m["user"].(string)
	if list, ok := m["check"].([]any); ok {
		p.Check = check(list)
	}
	return p
}

func check(list []any) *Check {
	c := &Check{Options: map[string]string{}}
	c.Op, _ = list[0].(string)
	switch c.Op {
	case "and", "or":
		for _, arg := range list[1:] {
			if sub, ok := arg.([]any); ok {
				c.Args = append(c.Args, check(sub))
			}
		}
		return c
	case "userid-param":
		c.Param, _ = list[1].(string)
		return c
	case "userid-group":
		c.Privs = words(list[1])
		c.options(list[2:])
		return c
	}
	c.Path, _ = list[1].(string)
	if len(list) > 2 {
		c.Privs = words(list[2])
		c.options(list[3:])
	}
	return c
}

func (c *Check) options(list []any) {
	for i := 0; i+1 < len(list); i += 2 {
		key, _ := list[i].(string)
		if key == "any" {
			c.Any = true
			continue
		}
		c.Options[key], _ = list[i+1].(string)
	}
}

func words(raw any) []string {
	var out []string
	list, _ := raw.([]any)
	for _, item := range list {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// Route finds the rule for a path below /api2/json (decoded, with or without slashes at the ends) and the values of its
// {variables}. A literal segment wins over a variable, and as in pve-common RESTHandler.pm there is no way back from
// it; {volume} takes the remainder with its slashes. known is false if the path or the method on it does not exist: PVE
// answers 501 then.
func (s *Set) Route(method, path string) (r *Route, vars map[string]string, known bool) {
	n := s.root
	vars = map[string]string{}
	parts := segments(path)
	for i, part := range parts {
		if next := n.literal[part]; next != nil {
			n = next
			continue
		}
		if n.child == nil || strings.ContainsAny(part, " \t\n") { // a variable is \S+
			return nil, nil, false
		}
		n = n.child
		if n.rest {
			vars[n.name] = strings.Join(parts[i:], "/")
			break
		}
		vars[n.name] = part
	}
	r, known = n.methods[method]
	if !known {
		return nil, nil, false
	}
	for _, segment := range segments(r.Template) {
		// Two routes may name the same segment differently; the method's own template decides.
		if name, isVar := variable(segment); isVar && vars[name] == "" {
			return rename(r, parts)
		}
	}
	return r, vars, true
}

// rename reads the variables off the path by the route's own template.
func rename(r *Route, parts []string) (*Route, map[string]string, bool) {
	vars := map[string]string{}
	for i, segment := range segments(r.Template) {
		if name, isVar := variable(segment); isVar {
			vars[name] = parts[i]
		}
	}
	return r, vars, true
}

// Routes are all routes of the release.
func (s *Set) Routes() []*Route {
	var all []*Route
	var walk func(*node)
	walk = func(n *node) {
		if n == nil {
			return
		}
		for _, method := range sortedKeys(n.methods) {
			all = append(all, n.methods[method])
		}
		for _, segment := range sortedKeys(n.literal) {
			walk(n.literal[segment])
		}
		walk(n.child)
	}
	walk(s.root)
	return all
}

// Validate checks the parameters of a request against the rule and returns PVE's errors{} map, nil if there is nothing
// to say. vars are the path variables from Set.Route; params those of query and body, which may repeat a path variable
// with the same value. A parameter given several times is passed as its values joined by NUL. Like PVE it reports all
// bad parameters, one fault each; several faults of one key are joined by a backslash and an n.
func (r *Route) Validate(params map[string]string, vars map[string]string) map[string]string {
	errs := faults{}
	for name, value := range vars {
		if again, ok := params[name]; ok && again != value {
			errs.add(name, "duplicate parameter (already defined in URI) with conflicting values!")
		}
	}
	if len(errs) > 0 {
		return errs
	}
	all := make(map[string]string, len(params)+len(vars))
	for name, value := range params {
		all[name] = value
	}
	for name, value := range vars {
		all[name] = value
	}
	checkObject("", r.Params, all, r.AnyParam, errs)
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// faults collects errors by parameter.
type faults map[string]string

// add joins several faults of one key by a literal \n: PVE's code has it in single quotes.
func (f faults) add(key, text string) {
	if was, ok := f[key]; ok {
		text = was + `\n` + text
	}
	f[key] = text
}

func segments(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
}

func variable(segment string) (name string, ok bool) {
	if strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "}") {
		return segment[1 : len(segment)-1], true
	}
	return "", false
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
