package conformance_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// valueRow is one option that was sent to VM 800 and what the server made of it; the VM was put back afterwards.
type valueRow struct {
	N      int            `json:"n"`
	Option string         `json:"option"`
	Sent   string         `json:"sent"`
	As     string         `json:"as"`
	Status int            `json:"status"`
	Reason string         `json:"reason"` // of other refusals than "Parameter verification failed."
	Errors any            `json:"errors"` // by parameter, or the text of a failure
	Stored any            `json:"stored"` // what the configuration shows afterwards
	Also   map[string]any `json:"also"`   // other options that changed: [before, after]
	// Of a change to the running VM:
	Delete  bool   `json:"delete"`
	Effect  string `json:"effect"` // applied or pending
	Before  any    `json:"before"`
	Value   any    `json:"value"`   // the current value afterwards
	Pending any    `json:"pending"` // the one that waits
}

const pathOf800 = "/nodes/{node}/qemu/800"

// guest800 puts the VM of the recordings: a drive on every bus.
func guest800(w *state.World, running bool) *state.Guest {
	for n := range 4 {
		orphanVolume(w, "local-zfs", fmt.Sprintf("vm-800-disk-%d", n), 800, 1<<30)
	}
	orphanVolume(w, "local2", "800/vm-800-disk-0.qcow2", 800, 1<<30)
	g := &state.Guest{VMID: 800, Type: "qemu", Node: "pve1", Config: map[string]string{
		"name": "norm", "boot": "order=ide1;net0", "net0": "virtio=BC:24:11:29:17:CE,bridge=vmbr0", "memory": "512",
		"scsi1": "local-zfs:vm-800-disk-3,size=1G", "ide1": "local-zfs:vm-800-disk-0,size=1G",
		"sata1": "local-zfs:vm-800-disk-1,size=1G", "virtio1": "local2:800/vm-800-disk-0.qcow2,size=1G",
		"smbios1": "uuid=b9eea7f4-8490-44a7-a57d-8a174fb98946", "vmgenid": "96ab717e-d5f1-4c93-b23c-14abd20d6f49",
		"meta": "creation-qemu=9.2.0,ctime=1767225600", "scsi0": "local-zfs:vm-800-disk-2,size=1G",
	}}
	if running {
		g.Running = &state.Running{QMPStatus: "running", StartedAt: w.Clock.Now(), Booted: maps.Clone(g.Config)}
	}
	w.Guests[800] = g
	return g
}

// put sends one option and compares the answer.
func (s *conformer) put(row valueRow, as string) (ok bool, diff []string) {
	params := map[string]string{row.Option: s.named(row.Sent)}
	if row.Delete {
		params = map[string]string{"delete": row.Option}
	}
	a, err := s.client.do(s.t.Context(), as, "PUT", s.named(pathOf800+"/config"), params)
	if err != nil {
		return false, []string{err.Error()}
	}
	if a.status != row.Status {
		return false, []string{fmt.Sprintf("want status %d %s %v, got %d %q %v", row.Status, row.Reason, row.Errors, a.status, a.reason, a.body.Errors)}
	}
	reason := map[int]string{200: "OK", 400: "Parameter verification failed."}[row.Status]
	if row.Reason != "" {
		reason = s.named(row.Reason)
	}
	want := map[string]any{}
	switch errs := row.Errors.(type) {
	case map[string]any:
		want, _ = s.namedValue(errs).(map[string]any)
	case string:
		reason = s.named(errs)
	}
	if reason != "" && !conformanceText(strings.TrimSpace(reason), a.reason) {
		diff = append(diff, fmt.Sprintf("reason: want %q, got %q", reason, a.reason))
	}
	got := map[string]any{}
	for k, v := range a.body.Errors {
		got[k] = v
	}
	return row.Status == 200, append(diff, objectDiff("errors", want, got)...)
}

// config reads the configuration of VM 800.
func (s *conformer) config800() map[string]any {
	a, err := s.client.do(s.t.Context(), "token", "GET", s.named(pathOf800+"/config"), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	config, _ := a.data.(map[string]any)
	return config
}

func conformanceValues(t *testing.T, c *conformance, s *conformer) {
	for _, row := range conformanceTable[valueRow](t, "values.jsonl") {
		t.Run(fmt.Sprintf("%03d %s=%s", row.N, row.Option, row.Sent), func(t *testing.T) {
			s.t = t
			area := "values: " + optionGroup(row.Option)
			if s.sim == nil {
				if why := newReach(s, firstCalls()).refusesValue(row); why != "" {
					c.skip(t, "values", area, why)
				}
				defer s.restore800(s.config800())
			} else {
				s.change(func(w *state.World) { guest800(w, false) })
			}
			before := s.config800()
			ok, diff := s.put(row, row.As)
			after := s.config800()
			if ok {
				diff = append(diff, conformanceDiff(row.Option, s.namedValue(row.Stored), after[row.Option])...)
			}
			for _, k := range slices.Sorted(maps.Keys(row.Also)) {
				diff = append(diff, conformanceDiff(k, s.namedValue(row.Also[k]), after[k])...)
			}
			for _, k := range slices.Sorted(maps.Keys(before)) {
				if _, listed := row.Also[k]; !listed && (k != row.Option || !ok) && k != "digest" && after[k] != before[k] {
					diff = append(diff, fmt.Sprintf("%s changed as well, from %v to %v", k, before[k], after[k]))
				}
			}
			c.judge(t, "values", area, row.N, append(diff, s.invariant()...))
		})
	}
}

// optionGroup is the option's name without its number.
func optionGroup(option string) string {
	name := strings.TrimRight(option, "0123456789")
	switch name {
	case "ide", "sata", "scsi", "virtio", "efidisk", "tpmstate", "unused":
		return "drives"
	case "net", "ipconfig", "nameserver", "searchdomain":
		return "network"
	case "cpu", "cores", "sockets", "vcpus", "cpulimit", "cpuunits", "affinity", "numa", "memory", "balloon", "shares", "hugepages", "keephugepages":
		return "CPU and memory"
	}
	return "other options"
}

func conformanceRunning(t *testing.T, c *conformance, s *conformer) {
	for _, row := range conformanceTable[valueRow](t, "running.jsonl") {
		t.Run(fmt.Sprintf("%03d %s=%s", row.N, row.Option, row.Sent), func(t *testing.T) {
			s.t = t
			s.change(func(w *state.World) { s.start800(w, row) })
			_, diff := s.put(row, "root")
			diff = append(diff, s.effectDiff(row)...)
			c.judge(t, "running", "changes of a running guest", row.N, append(diff, s.invariant()...))
		})
	}
}

// start800 puts the running VM with the option's value of the recording.
func (s *conformer) start800(w *state.World, row valueRow) {
	g := guest800(w, true)
	switch before := row.Before.(type) {
	case string:
		if !strings.Contains(before, "~") {
			g.Config[row.Option] = s.named(before)
		}
	case float64:
		g.Config[row.Option] = fmt.Sprint(before)
	case nil:
		if !row.Delete {
			delete(g.Config, row.Option)
		} else if g.Config[row.Option] == "" {
			g.Config[row.Option] = "1"
		}
	}
	g.Running.Booted = maps.Clone(g.Config)
}

// effectDiff compares the pending options and the options in force.
func (s *conformer) effectDiff(row valueRow) []string {
	a, err := s.client.do(s.t.Context(), "token", "GET", s.named(pathOf800+"/pending"), nil)
	if err != nil {
		return []string{err.Error()}
	}
	item := map[string]any{}
	list, _ := a.data.([]any)
	for _, i := range list {
		if m, ok := i.(map[string]any); ok && m["key"] == row.Option {
			item = m
		}
	}
	_, waits := item["pending"]
	if _, goes := item["delete"]; goes {
		waits = true
	}
	var diff []string
	if waits != (row.Effect == "pending") {
		diff = append(diff, fmt.Sprintf("want it %s, got %s", row.Effect, compactJSON(item)))
	}
	if !row.Delete && compactJSON(item["value"]) != compactJSON(row.Value) {
		diff = append(diff, conformanceDiff("value", s.namedValue(row.Value), item["value"])...)
	}
	if row.Pending != nil {
		diff = append(diff, conformanceDiff("pending", s.namedValue(row.Pending), item["pending"])...)
	}
	return diff
}

// privilegeRow is an operation of a token that has every privilege but one.
type privilegeRow struct {
	N         int               `json:"n"`
	Operation string            `json:"operation"`
	Do        string            `json:"do"` // of the rows that define the operation
	With      map[string]string `json:"with"`
	Without   string            `json:"without"`
	Status    int               `json:"status"`
	Reason    string            `json:"reason"`
	Errors    map[string]string `json:"errors"`
	Exit      string            `json:"exit"`
	Items     *int              `json:"items"` // of a list
	Of        *int              `json:"of"`    // with all privileges
}

// guest810 puts the VM and the pool that the operations are about.
func guest810(w *state.World, operation string) {
	clear(w.Guests)
	clear(w.Volumes)
	w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "iso/test.iso", Content: "iso", Format: "iso", Size: 1 << 20})
	orphanVolume(w, "local-zfs", "vm-810-disk-0", 810, 1<<30)
	orphanVolume(w, "local-zfs", "vm-810-cloudinit", 810, 4<<20)
	g := &state.Guest{VMID: 810, Type: "qemu", Node: "pve1", Config: map[string]string{
		"scsi0": "local-zfs:vm-810-disk-0,size=1G", "net0": "virtio=BC:24:11:00:00:10,bridge=vmbr0", "agent": "1",
		"ide2": "local-zfs:vm-810-cloudinit,media=cdrom,size=4M", "scsihw": "virtio-scsi-pci",
	}}
	w.Guests[810] = g
	extra := func(opt string) {
		orphanVolume(w, "local-zfs", "vm-810-disk-1", 810, 1<<30)
		g.Config[opt] = "local-zfs:vm-810-disk-1,size=1G"
	}
	switch operation {
	case "start": // bios was set before
		g.Config["bios"], g.Config["machine"] = "ovmf", "q35"
	case "detach disk":
		extra("scsi1")
	case "delete unused":
		extra("unused0")
		g.Config["unused0"] = "local-zfs:vm-810-disk-1"
	case "stop", "agent interfaces":
		g.Running = &state.Running{QMPStatus: "running", StartedAt: w.Clock.Now(), Booted: maps.Clone(g.Config)}
	case "delete snapshot":
		g.Snaps = map[string]map[string]string{"s1": maps.Clone(g.Config)}
		g.Snaps["s1"]["snaptime"] = "1767225600"
		g.Config["parent"] = "s1"
		for _, name := range []string{"vm-810-disk-0", "vm-810-cloudinit"} {
			w.Volumes[state.VolumeKey{Storage: "local-zfs", Node: "pve1", Name: name}].Snaps = []string{"s1"}
		}
	case "delete volume":
		orphanVolume(w, "local-zfs", "vm-810-disk-9", 810, 64<<20)
	}
	w.Pools = map[string]*state.Pool{"probepool": {ID: "probepool", Guests: []int{}}}
}

func conformancePrivileges(t *testing.T, c *conformance, s *conformer) {
	all := conformancePrivilegesOfProbe()
	rows := conformanceTable[privilegeRow](t, "privileges.jsonl")
	define := map[string]privilegeRow{
		"agent interfaces": {Do: "GET " + "/nodes/{node}/qemu/810/agent/network-get-interfaces"},
	}
	for _, row := range rows {
		if row.Do != "" {
			define[row.Operation] = row
		}
		row.Do, row.With = define[row.Operation].Do, define[row.Operation].With
		t.Run(fmt.Sprintf("%03d %s without %q", row.N, row.Operation, row.Without), func(t *testing.T) {
			s.t = t
			s.change(func(w *state.World) {
				guest810(w, row.Operation)
				w.Roles["TerraformProv"] = slices.DeleteFunc(slices.Clone(all), func(p string) bool { return p == row.Without })
			})
			c.judge(t, "privileges", "privileges", row.N, append(s.privilege(row), s.invariant()...))
		})
	}
}

// conformancePrivilegesOfProbe is the role from which one privilege after the other was taken.
func conformancePrivilegesOfProbe() []string {
	return slices.DeleteFunc(conformancePrivilegesOfProvider(), func(p string) bool { return p == "Sys.Console" })
}

func (s *conformer) privilege(row privilegeRow) []string {
	call := callRow{N: 10000 + row.N, As: "provider", Do: row.Do, With: row.With, Status: row.Status, Reason: row.Reason, Errors: row.Errors}
	method, path, _ := strings.Cut(s.named(row.Do), " ")
	params := map[string]string{}
	for k, v := range row.With {
		params[k] = s.named(v)
	}
	a, err := s.client.do(s.t.Context(), call.As, method, path, params)
	if err != nil {
		return []string{err.Error()}
	}
	call.Data, call.Total = a.data, nil // which the other tables compare
	if a.body.Total != nil {
		call.Total = "~number~"
	}
	diff := s.answerDiff(call, a)
	if upid, ok := a.data.(string); ok && strings.HasPrefix(upid, "UPID:") && row.Exit != "" {
		status, err := s.client.do(s.t.Context(), "token", "GET", s.named("/nodes/{node}/tasks/"+upid+"/status"), nil)
		if err != nil {
			return append(diff, err.Error())
		}
		m, _ := status.data.(map[string]any)
		diff = append(diff, conformanceDiff("exitstatus", s.named(row.Exit), m["exitstatus"])...)
	} else if row.Exit != "" {
		diff = append(diff, fmt.Sprintf("want a task that ends %q, got %s", row.Exit, compactJSON(a.data)))
	}
	if list, ok := a.data.([]any); row.Items != nil && (!ok || (*row.Items < *row.Of) != (len(list) < s.everything(path, params))) {
		diff = append(diff, fmt.Sprintf("want %d of %d items, got %s", *row.Items, *row.Of, compactJSON(a.data)))
	}
	return diff
}

// everything is how many items root sees.
func (s *conformer) everything(path string, params map[string]string) int {
	a, err := s.client.do(s.t.Context(), "token", "GET", path, params)
	if err != nil {
		s.t.Fatal(err)
	}
	list, _ := a.data.([]any)
	return len(list)
}
