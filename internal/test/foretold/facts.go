package foretold

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Fact is something in a cluster that a change can make go. Its loss is foretold by a line of the plan that has one of the phrases: all the
// words of it.
type Fact struct {
	Name    string // "snapshot by-hand of VM 101"
	phrases []phrase
	with    string // the VM with which it goes as a matter of course: "VM 101"
	ofID    bool   // it goes with a VM that no other takes the place of: permissions and firewall of its id
}

type phrase []string

// Theirs begins the contents of other users' volumes.
const Theirs = "another user's data"

// Facts are what a cluster has, by their names.
type Facts map[string]Fact

func (f Facts) add(name string, phrases ...phrase) { f[name] = Fact{Name: name, phrases: phrases} }

// addOwn adds what goes with its VM as a matter of course.
func (f Facts) addOwn(thing, name string, phrases ...phrase) {
	f[name+" of "+thing] = Fact{Name: name + " of " + thing, phrases: phrases, with: thing}
}

// addOfID adds what goes with its VM as a matter of course unless another VM takes its id.
func (f Facts) addOfID(vmid, name string, phrases ...phrase) {
	f[name] = Fact{Name: name, phrases: phrases, with: "VM " + vmid, ofID: true}
}

// goesWith reports whether it goes with a VM that a plan removes, or replaces, as a matter of course.
func (f Fact) goesWith(gone map[string]terraformtest.Action) bool {
	action, is := gone[f.with]
	return is && (action == terraformtest.Delete || !f.ofID)
}

// Of lists what a cluster has. Its mutex is held.
func Of(w *state.World) Facts {
	f := Facts{}
	for _, v := range w.Volumes {
		switch thing := fmt.Sprintf("VM %d", v.VMID); {
		case strings.HasPrefix(v.Data, Theirs):
			f.add(v.Data+" of "+thing, phrase{v.Volid()})
		case v.Data != "":
			f.addOwn(thing, v.Data, phrase{v.Volid()})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.Guests)) {
		f.ofGuest(w.Guests[id])
	}
	f.ofJobs(w)
	f.ofHA(w)
	for id, file := range w.Firewall {
		f.ofFirewall(id, file)
	}
	for _, entry := range w.ACL {
		name := fmt.Sprintf("permission %s of %s on %s", entry.Role, entry.Subject, entry.Path)
		f.addOfID(strings.TrimPrefix(entry.Path, "/vms/"), name, phrase{entry.Subject, entry.Role}, phrase{"permissions on " + entry.Path})
	}
	for _, pool := range w.Pools {
		for _, id := range pool.Guests {
			f.add(fmt.Sprintf("VM %d in pool %s", id, pool.ID), phrase{"pool"})
		}
	}
	return f
}

func (f Facts) ofGuest(g *state.Guest) {
	if g.Type != "qemu" {
		return
	}
	thing := fmt.Sprintf("VM %d", g.VMID)
	f.addOwn(thing, "the configuration", phrase{"delete "}, phrase{"replace "})
	for name := range g.Snaps {
		f.add("snapshot "+name+" of "+thing, phrase{name})
	}
	if g.Running != nil {
		f.addOwn(thing, "the power", phrase{"will be restarted"}, phrase{"will be stopped"}, phrase{`-> "stopped"`}, phrase{"power_state", "stopped"},
			phrase{"The guest is cut off"})
	}
	for option, value := range g.NextConfig() {
		if isPVEs(option) {
			continue
		}
		for name, is := range settings(option, value) {
			f.addOwn(thing, name+"="+is, phrasesOf(option)...)
		}
	}
	for option, value := range g.Pending {
		f.addOwn(thing, option+"="+value+", which waits,", phrasesOf(option)...)
	}
	for option := range g.Deletes {
		f.addOwn(thing, "the removal of "+option+", which waits,", phrasesOf(option)...)
	}
}

// isPVEs reports whether an option is PVE's own to change: its creation data, the identity of a generation, the order of snapshots, and the
// list of detached disks.
func isPVEs(option string) bool {
	return slices.Contains([]string{"meta", "vmgenid", "digest", "parent", "lock", "runningmachine", "runningcpu"}, option)
}

// phrasesOf name an option: by its attribute, or in PVE's words.
func phrasesOf(option string) []phrase {
	list := []phrase{{option}}
	if strings.HasPrefix(option, "ipconfig") {
		list = append(list, phrase{"cloud_init.addresses"})
	}
	if a, ok := vm.AttributeOf(option); ok {
		path := a.In(option)
		group, slot, has := strings.Cut(path, ".")
		list = append(list, phrase{path})
		if has {
			list = append(list, phrase{fmt.Sprintf("%s[%q]", group, slot)})
		}
	}
	return list
}

// settings are the properties of an option, the volume of a drive as one of them without the name that a migration changes.
func settings(option, value string) map[string]string {
	all := map[string]string{}
	if option == "description" || option == "args" || strings.HasPrefix(option, "sshkeys") {
		return map[string]string{option: value}
	}
	for _, property := range strings.Split(value, ",") {
		name, is, named := strings.Cut(property, "=")
		switch {
		case named && name == "size": // grows, and follows its disk
		case named:
			all[option+" "+name] = is
		case strings.Contains(property, ":"):
			all[option] = "a volume"
		default:
			all[option] = property
		}
	}
	return all
}

func (f Facts) ofJobs(w *state.World) {
	for _, job := range w.Backups {
		f.add("backup job "+job.ID, phrase{"backup job " + job.ID, "removed"}, phrase{"backup job " + job.ID, "last"})
		for _, id := range job.VMIDs {
			f.add(fmt.Sprintf("VM %d in backup job %s", id, job.ID), phrase{"backup job " + job.ID})
		}
		for _, id := range job.Exclude {
			f.add(fmt.Sprintf("VM %d left out of backup job %s", id, job.ID), phrase{"backup job " + job.ID})
		}
	}
	for id := range w.Replication {
		f.add("replication job "+id, phrase{"replication job " + id})
	}
}

func (f Facts) ofHA(w *state.World) {
	for sid, entry := range w.HA {
		f.add("HA entry "+sid, phrase{"HA resource " + sid}, phrase{"ha."}, phrase{"ha:"})
		for name, value := range entry.Options {
			f.add(fmt.Sprintf("%s=%s of HA entry %s", name, value, sid), phrase{"HA resource " + sid}, phrase{"ha." + name}, phrase{"ha:"})
		}
	}
	for id, rule := range w.HARules {
		f.add("HA rule "+id, phrase{"HA rule " + id, "removed"}, phrase{"HA rule " + id, "last"}, phrase{"delete proxmox_ha_rule"})
		for _, sid := range strings.Split(rule["resources"], ",") {
			f.add(fmt.Sprintf("%s in HA rule %s", sid, id), phrase{"HA rule " + id}, phrase{"proxmox_ha_rule"})
		}
	}
}

func (f Facts) ofFirewall(vmid int, file *state.FirewallFile) {
	id, of := strconv.Itoa(vmid), fmt.Sprintf(" of the firewall of VM %d", vmid)
	for name, value := range file.Options {
		f.addOfID(id, name+"="+value+of, phrase{name}, phrase{"firewall options or rules"})
	}
	for _, rule := range file.Rules {
		f.addOfID(id, fmt.Sprint("rule ", rule, of), phrase{"firewall"})
	}
	for name := range file.Aliases {
		f.addOfID(id, "alias "+name+of, phrase{"firewall"})
	}
	for name := range file.IPSets {
		f.addOfID(id, "IP set "+name+of, phrase{"firewall"})
	}
}
