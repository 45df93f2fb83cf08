// Package schema knows the parameter rules of the PVE 8.4 API: every method of every path, the type, range and format
// of each parameter, and the words in which the server refuses a value.
//
// The rules come from two embedded files: routes.json, the facts of the official API description in a compact form
// (written by gen.go), and formats.json, the property-string formats that the description only names. The algorithms
// are those of pve-common JSONSchema.pm, order of checks included, because which of several faults is reported is
// visible. The package judges a request on its own; it knows no state, so "no such VM" and the like are not its
// business.
package schema

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

//go:generate sh -c "go run gen.go \"$PVE_API_SCHEMA\" > routes.json"

//go:embed routes.json
var routesJSON []byte

//go:embed formats.json
var formatsJSON []byte

// Set is all rules of one PVE version. It is read-only after Load and may be used by several goroutines at once.
type Set struct {
	version string
	root    *node
	formats map[string]*Format // the property-string formats that have a name
	vm      map[string]*Param  // parameters of VM create and VM config: what Format looks options up in
}

// node is one segment of the path tree.
type node struct {
	literal map[string]*node
	child   *node // the {variable} segment, nil if there is none
	name    string
	rest    bool // the variable takes the remainder of the path
	methods map[string]*Route
}

type file struct {
	Params      []*Param    `json:"params"`
	Permissions []any       `json:"permissions"`
	Routes      []fileRoute `json:"routes"`
}

type fileRoute struct {
	Method      string         `json:"method"`
	Path        string         `json:"path"`
	Flags       string         `json:"flags"`
	Permissions *int           `json:"permissions"`
	Params      map[string]int `json:"params"`
}

// sets are the rules of all Versions, each parsed when it is first asked for: a Set never changes, so one does for all
// clusters of a process, of which tests have many.
var sets = sync.OnceValue(func() map[string]func() *Set {
	all := map[string]func() *Set{}
	for _, version := range Versions() {
		all[version] = sync.OnceValue(func() *Set { return parse(version) })
	}
	return all
})

// LoadVersion gives the rules of one of Versions, to the same Set each time. It panics if the embedded files are
// damaged, which no input can cause, and on another version.
func LoadVersion(version string) *Set {
	load := sets()[version]
	if load == nil {
		panic("schema: no rules of version " + version)
	}
	return load()
}

// parse reads the embedded rules and brings them to a version: some milliseconds, a megabyte and a half.
func parse(version string) *Set {
	var f file
	if err := json.Unmarshal(routesJSON, &f); err != nil {
		panic(fmt.Sprintf("schema: routes.json: %v", err))
	}
	var named map[string]map[string]*Param
	if err := json.Unmarshal(formatsJSON, &named); err != nil {
		panic(fmt.Sprintf("schema: formats.json: %v", err))
	}
	f.adapt(version, named)
	b := builder{
		set:       &Set{version: version, root: &node{}, formats: map[string]*Format{}, vm: map[string]*Param{}},
		verifiers: verifiers(version),
		patterns:  map[string]*regexp.Regexp{},
	}
	b.formats(named, f.Params)
	for _, p := range f.Params {
		b.link(p)
	}
	// The description starts below the root; the root's own index was seen to answer.
	b.set.add(&Route{Method: "GET", Template: "/", Permissions: &Permission{User: "all"}, AllowToken: true})
	for _, r := range f.Routes {
		route := &Route{
			Method: r.Method, Template: r.Path, Params: map[string]*Param{},
			Protected: strings.Contains(r.Flags, "p"), ProxyToNode: strings.Contains(r.Flags, "n"),
			AllowToken: strings.Contains(r.Flags, "t"), AnyParam: strings.Contains(r.Flags, "x"),
		}
		if r.Permissions != nil {
			route.Permissions = permission(f.Permissions[*r.Permissions])
		}
		if p := guestAgent(r.Method, r.Path); p != nil && splitMonitor().Has(version) {
			route.Permissions = p
		}
		for name, n := range r.Params {
			for _, key := range expand(r.Path, name) {
				route.Params[key] = f.Params[n]
			}
		}
		b.set.add(route)
	}
	return b.set
}

// builder connects the parts of a Set while it is loaded.
type builder struct {
	set       *Set
	verifiers map[string]verifier
	patterns  map[string]*regexp.Regexp
}

// formats makes the named formats. "pve-qm-ide" (the parameter cdrom) is the format of ide[n], which the description
// spells out there, so it is taken from there.
func (b *builder) formats(named map[string]map[string]*Param, params []*Param) {
	for name, properties := range named {
		b.set.formats[name] = newFormat(name, properties)
	}
	for _, p := range params {
		if p.Properties["model"] != nil && p.Properties["file"] != nil {
			b.set.formats["pve-qm-ide"] = newFormat("pve-qm-ide", p.Properties)
		}
	}
	cpu := b.set.formats["pve-vm-cpu-conf"]
	cpu.check = checkCPU(b.set.version)
	for _, model := range builtinCPUs() {
		if !strings.HasPrefix(model, "x86-64-v") { // PVE's own models report themselves as one of QEMU's
			cpu.Params["reported-model"].Enum = append(cpu.Params["reported-model"].Enum, model)
		}
	}
	b.set.formats["prune-backups"].check = checkPrune
	for _, f := range b.set.formats {
		for _, p := range f.Params {
			b.link(p)
		}
	}
}

// link compiles a parameter's pattern and finds its format.
func (b *builder) link(p *Param) {
	if p.Pattern != "" && p.pattern == nil {
		p.pattern = b.patterns[p.Pattern]
		if p.pattern == nil {
			// Not grouped, as in Perl's m/^$pattern$/: an alternation at the top level loses its anchors there as well.
			p.pattern = regexp.MustCompile("^" + p.Pattern + `\n?$`)
			b.patterns[p.Pattern] = p.pattern
		}
	}
	if p.Properties != nil && p.nested == nil {
		p.nested = newFormat("", p.Properties)
	}
	if p.Format != "" && p.nested == nil && p.verify == nil {
		p.nested = b.set.formats[p.Format]
		if p.nested == nil {
			p.verify = b.verifier(p.Format)
		}
	}
	for _, property := range p.Properties {
		b.link(property)
	}
	if p.Items != nil {
		b.link(p.Items)
	}
}

// verifier finds the check of a format by id; "-list" and "-opt" wrap that of the base format. An id without a check
// (containers, SDN, Ceph and other areas out of the simulator's reach) accepts everything.
func (b *builder) verifier(id string) verifier {
	base, isList := strings.CutSuffix(id, "-list")
	base, isOpt := strings.CutSuffix(base, "-opt")
	one := b.verifiers[base]
	switch {
	case one == nil:
		return func(string) error { return nil }
	case isList:
		return func(value string) error {
			for _, part := range splitList(value) {
				if err := one(part); err != nil {
					return err
				}
			}
			return nil
		}
	case isOpt:
		return func(value string) error {
			if !perlTrue(value) {
				return nil
			}
			return one(value)
		}
	}
	return one
}

// add puts a route into the tree.
func (s *Set) add(r *Route) {
	n := s.root
	for _, segment := range segments(r.Template) {
		name, isVar := variable(segment)
		if isVar {
			if n.child == nil {
				n.child = &node{name: name}
			}
			n = n.child
			// storage content is the one subclass whose fragmentDelimiter is '' (pve-storage API2/Storage/Status.pm):
			// a volume id may contain slashes.
			n.rest = name == "volume" || name == "cidr"
			continue
		}
		if n.literal == nil {
			n.literal = map[string]*node{}
		}
		if n.literal[segment] == nil {
			n.literal[segment] = &node{}
		}
		n = n.literal[segment]
	}
	if n.methods == nil {
		n.methods = map[string]*Route{}
	}
	n.methods[r.Method] = r
	switch r.Template {
	case "/nodes/{node}/qemu", "/nodes/{node}/qemu/{vmid}/config":
		if r.Method == http.MethodPost {
			for name, p := range r.Params {
				s.vm[name] = p
			}
		}
	}
}
