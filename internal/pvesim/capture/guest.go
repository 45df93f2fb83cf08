package capture

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// guests are all that the cluster's listing shows, with their configurations.
func (l *look) guests(ctx context.Context) error {
	list, err := l.list(ctx, "/cluster/resources?type=vm")
	if err != nil {
		return err
	}
	modes, err := l.modes(ctx)
	if err != nil {
		return err
	}
	l.file.Guests = make([]state.FileGuest, len(list))
	places := make([]int, len(list))
	firewalls := make([]*state.FileFirewall, len(list))
	for i, r := range list {
		places[i] = i
		g := &l.file.Guests[i]
		g.VMID, g.Type, g.Node = int(r.number("vmid")), r.text("type"), r.text("node")
		mode := modes[g.VMID]
		g.Running = r.text("status") == "running" || mode != ""
		if mode == "paused" || mode == "prelaunch" || mode == "suspended" {
			g.Running, g.Paused = false, true
		}
	}
	if err := each(ctx, places, func(ctx context.Context, i int) (err error) {
		firewalls[i], err = l.guest(ctx, &l.file.Guests[i])
		return err
	}); err != nil {
		return err
	}
	slices.SortFunc(l.file.Guests, func(a, b state.FileGuest) int { return cmp.Compare(a.VMID, b.VMID) })
	for _, f := range firewalls {
		if f != nil {
			l.file.Firewall = append(l.file.Firewall, *f)
		}
	}
	slices.SortFunc(l.file.Firewall, func(a, b state.FileFirewall) int { return cmp.Compare(a.VMID, b.VMID) })
	return nil
}

// modes are the states of QEMU of the virtual machines that run, by VMID: the cluster's listing lags behind, and knows
// no pause.
func (l *look) modes(ctx context.Context) (map[int]string, error) {
	modes := map[int]string{}
	for _, n := range l.file.Nodes {
		if n.Offline {
			continue
		}
		list, err := l.list(ctx, "/nodes/"+n.Name+"/qemu?full=1")
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if mode := r.text("qmpstatus"); mode != "stopped" {
				modes[int(r.number("vmid"))] = mode
			}
		}
	}
	return modes, nil
}

// guest reads what the files of a guest say.
func (l *look) guest(ctx context.Context, g *state.FileGuest) (*state.FileFirewall, error) {
	if l.isOffline(g.Node) {
		l.note("guest %d: its node %s is offline, so that its configuration cannot be read", g.VMID, g.Node)
		return nil, nil
	}
	base := fmt.Sprintf("/nodes/%s/%s/%d", g.Node, g.Type, g.VMID)
	if seen, err := l.config(ctx, g, base); err != nil || !seen {
		return nil, err
	}
	if err := l.snapshots(ctx, g, base); err != nil || g.Type != "qemu" {
		return nil, err
	}
	if err := l.agent(ctx, g, base); err != nil {
		return nil, err
	}
	return l.firewall(ctx, g.VMID, base+"/firewall")
}

// config reads the configuration, what of it waits for a restart included.
func (l *look) config(ctx context.Context, g *state.FileGuest, base string) (bool, error) {
	list, ok, err := l.ask(ctx, base+"/pending")
	if err != nil || !ok {
		return false, err
	}
	g.Config = map[string]string{}
	for _, r := range rows(list) {
		key := r.text("key")
		if key == "digest" || key == "" {
			continue
		}
		if _, ok := r["value"]; ok {
			g.Config[key] = r.text("value")
		}
		if _, ok := r["pending"]; ok {
			if g.Pending == nil {
				g.Pending = map[string]string{}
			}
			g.Pending[key] = r.text("pending")
		}
		if n := int(r.number("delete")); n != 0 {
			if g.Deletes == nil {
				g.Deletes = map[string]int{}
			}
			g.Deletes[key] = n
		}
	}
	if g.Type == "qemu" {
		return true, nil
	}
	delete(g.Config, "lxc") // raw lines, which are a list
	return true, nil
}

// snapshots reads the configurations at the time of the snapshots.
func (l *look) snapshots(ctx context.Context, g *state.FileGuest, base string) error {
	list, err := l.list(ctx, base+"/snapshot")
	if err != nil {
		return err
	}
	for _, r := range list {
		name := r.text("name")
		if name == "current" || name == "" {
			continue
		}
		conf, ok, err := l.object(ctx, base+"/snapshot/"+escaped(name)+"/config")
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if g.Snapshots == nil {
			g.Snapshots = map[string]map[string]string{}
		}
		g.Snapshots[name] = conf.texts("digest")
		if parent := r.text("parent"); parent != "" {
			g.Snapshots[name]["parent"] = parent
		}
	}
	return nil
}

// agent asks the guest agent for the interfaces of a guest that runs, if it has one.
func (l *look) agent(ctx context.Context, g *state.FileGuest, base string) error {
	enabled, _, _ := strings.Cut(g.Config["agent"], ",")
	if !g.Running || !slices.Contains([]string{"1", "enabled=1"}, enabled) {
		return nil
	}
	data, err := l.client.get(ctx, base+"/agent/network-get-interfaces")
	if r, ok := err.(*refused); ok { //nolint:errorlint // made right there, and never wrapped
		if r.status == 403 {
			l.note("%s/agent/network-get-interfaces: %s", base, r)
			return nil
		}
		g.Agent = &state.FileAgent{Silent: true}
		return nil
	}
	if err != nil {
		return fmt.Errorf("GET %s/agent/network-get-interfaces: %w", base, err)
	}
	r, _ := data.(map[string]any)
	g.Agent = &state.FileAgent{}
	for _, i := range rows(r["result"]) {
		face := state.FileInterface{Name: i.text("name"), MAC: i.text("hardware-address"),
			NoStatistics: i["statistics"] == nil}
		for _, a := range rows(i["ip-addresses"]) {
			face.Addresses = append(face.Addresses, a.text("ip-address")+"/"+a.text("prefix"))
		}
		g.Agent.Interfaces = append(g.Agent.Interfaces, face)
	}
	return nil
}

// firewall reads a firewall file; nil if there is nothing in it.
func (l *look) firewall(ctx context.Context, vmid int, base string) (*state.FileFirewall, error) {
	f := &state.FileFirewall{VMID: vmid}
	options, ok, err := l.object(ctx, base+"/options")
	if err != nil || !ok {
		return nil, err
	}
	f.Options = none(options.texts("digest"))
	rules, err := l.list(ctx, base+"/rules")
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		f.Rules = append(f.Rules, r.texts("digest", "pos", "ipversion"))
	}
	aliases, err := l.list(ctx, base+"/aliases")
	if err != nil {
		return nil, err
	}
	for _, r := range aliases {
		if f.Aliases == nil {
			f.Aliases = map[string]map[string]string{}
		}
		f.Aliases[strings.ToLower(r.text("name"))] = r.texts("digest", "ipversion")
	}
	if err := l.ipsets(ctx, f, base+"/ipset"); err != nil {
		return nil, err
	}
	if len(f.Options)+len(f.Rules)+len(f.Aliases)+len(f.IPSets) == 0 {
		return nil, nil
	}
	return f, nil
}

func (l *look) ipsets(ctx context.Context, f *state.FileFirewall, base string) error {
	list, err := l.list(ctx, base)
	if err != nil {
		return err
	}
	for _, r := range list {
		entries, err := l.list(ctx, base+"/"+escaped(r.text("name")))
		if err != nil {
			return err
		}
		set := state.FileIPSet{Comment: r.text("comment")}
		for _, e := range entries {
			set.Entries = append(set.Entries, e.texts("digest"))
		}
		if f.IPSets == nil {
			f.IPSets = map[string]state.FileIPSet{}
		}
		f.IPSets[r.text("name")] = set
	}
	return nil
}
