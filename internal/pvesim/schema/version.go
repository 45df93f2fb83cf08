package schema

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/release"
)

//go:embed profiles.json
var profilesJSON []byte

// change is a fact about versions: what stands at Where exists where the package has the fact, or with Gone where it
// has it not. With a Rule the 8.4 description lacks it (or has another one), and the rule is put there; without one it
// is taken away elsewhere.
//
// A place is a route ("POST /access/vncticket"), a parameter of a route ("PUT /pools:allow-move"), an option of a VM on
// create and on both ways of changing it ("vm:virtiofs[n]"), a key of its property string ("vm:scsi[n].vendor"), or a
// key of a named format ("format:pve-qm-hostpci.driver").
type change struct {
	release.Fact
	Gone  bool     `json:"gone"`
	Where []string `json:"where"`
	Rule  *Param   `json:"rule"`
	// Like makes Where routes that the 8.4 description lacks, with the permissions of this one, and with Params.
	Like   string            `json:"like"`
	Params map[string]*Param `json:"params"`
}

func (c change) holds(version string) bool { return c.Has(version) != c.Gone }

// Versions are the releases whose rules LoadVersion knows, oldest first. 7.4 has little of its own: it is there for a
// client that refuses what is too old for it.
func Versions() []string { return release.Versions() }

// Version is the release whose rules the set holds.
func (s *Set) Version() string { return s.version }

// Load is LoadVersion of the release that the embedded description is of, 8.4.
func Load() *Set { return LoadVersion("8.4") }

// vmRoutes are the routes that take a VM's options.
func vmRoutes() []string {
	return []string{"POST /nodes/{node}/qemu", "POST /nodes/{node}/qemu/{vmid}/config",
		"PUT /nodes/{node}/qemu/{vmid}/config"}
}

// adapt brings the 8.4 description to another release.
func (f *file) adapt(version string, formats map[string]map[string]*Param) {
	var changes []change
	if err := json.Unmarshal(profilesJSON, &changes); err != nil {
		panic(fmt.Sprintf("schema: profiles.json: %v", err))
	}
	for _, c := range changes {
		if c.holds(version) == (c.Rule == nil && c.Like == "") {
			continue // already so
		}
		for _, place := range c.Where {
			if c.Like != "" {
				f.add(place, c.Like, c.Params)
				continue
			}
			if !f.apply(place, c.Rule, formats) {
				panic(fmt.Sprintf("schema: profiles.json: nothing at %q", place))
			}
		}
	}
}

// add makes a route with what another one has. The variables of its path are texts where params say nothing else; one
// without params takes any, since it has no semantics.
func (f *file) add(place, like string, params map[string]*Param) {
	for _, r := range f.Routes {
		if r.Method+" "+r.Path != like {
			continue
		}
		r.Method, r.Path, _ = strings.Cut(place, " ")
		r.Params = map[string]int{}
		param := func(name string, p *Param) {
			f.Params = append(f.Params, p)
			r.Params[name] = len(f.Params) - 1
		}
		for _, segment := range segments(r.Path) {
			if name, ok := variable(segment); ok {
				param(name, &Param{Type: "string"})
			}
		}
		for name, p := range params {
			param(name, p)
		}
		if len(params) == 0 {
			r.Flags += "x"
		}
		f.Routes = append(f.Routes, r)
		return
	}
	panic(fmt.Sprintf("schema: profiles.json: nothing at %q", like))
}

// apply puts a rule at a place, or takes away what is there (nil). false: the place does not exist.
func (f *file) apply(place string, rule *Param, formats map[string]map[string]*Param) bool {
	kind, rest, _ := strings.Cut(place, ":")
	name, key, nested := strings.Cut(rest, ".")
	switch {
	case kind == "format":
		return put(formats[name], key, rule)
	case kind != "vm" && rest == "":
		before := len(f.Routes)
		f.Routes = slices.DeleteFunc(f.Routes, func(r fileRoute) bool { return r.Method+" "+r.Path == kind })
		return len(f.Routes) < before
	}
	found := false
	for _, r := range f.Routes {
		route := r.Method + " " + r.Path
		if kind != route && (kind != "vm" || !slices.Contains(vmRoutes(), route)) {
			continue
		}
		n, has := r.Params[name]
		switch {
		case nested && has:
			found = put(f.Params[n].Properties, key, rule) || found
		case nested:
		case rule != nil:
			f.Params = append(f.Params, rule)
			r.Params[name] = len(f.Params) - 1
			found = true
		case has:
			delete(r.Params, name)
			found = true
		}
	}
	return found
}

// put changes one key of a property string. Parameters are shared between routes, so taking it away again is no error.
func put(properties map[string]*Param, key string, rule *Param) bool {
	if rule == nil {
		delete(properties, key)
	} else if properties != nil {
		properties[key] = rule
	}
	return properties != nil
}

// splitMonitor is since when the commands of the guest agent have privileges of their own in the place of VM.Monitor.
func splitMonitor() release.Fact {
	return release.Fact{Package: "qemu-server", Since: "9.0.3", Source: "API2/Qemu/Agent.pm, register_command (b92a40ce)"}
}

// guestAgent is who may use the guest agent since then, by the command's own privilege or the unrestricted one, and who
// may ask QEMU's monitor. nil for other routes.
func guestAgent(method, template string) *Permission {
	path, command, _ := strings.Cut(strings.TrimPrefix(template, "/nodes/{node}/qemu/{vmid}/"), "/")
	if path == "monitor" { // API2/Qemu.pm, monitor (ac86fe8f)
		return &Permission{Check: &Check{Op: "perm", Path: "/vms/{vmid}", Privs: []string{"Sys.Audit", "Sys.Modify"},
			Any: true, Options: map[string]string{}}}
	}
	if path != "agent" || command == "" && method != "POST" {
		return nil
	}
	privs := []string{"VM.GuestAgent.Audit"}
	switch {
	case command == "" || command == "exec" || command == "exec-status" || command == "set-user-password":
		privs = nil
	case command == "file-read":
		privs = []string{"VM.GuestAgent.FileRead"}
	case command == "file-write":
		privs = []string{"VM.GuestAgent.FileWrite"}
	case command == "fsfreeze-status":
		privs = append(privs, "VM.GuestAgent.FileSystemMgmt")
	case strings.HasPrefix(command, "fs"):
		privs = []string{"VM.GuestAgent.FileSystemMgmt"}
	case command == "shutdown" || strings.HasPrefix(command, "suspend-"):
		privs = []string{"VM.PowerMgmt"}
	}
	privs = append(privs, "VM.GuestAgent.Unrestricted")
	return &Permission{Check: &Check{Op: "perm", Path: "/vms/{vmid}", Privs: privs, Any: len(privs) > 1,
		Options: map[string]string{}}}
}
