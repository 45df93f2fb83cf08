package orphan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// A program that makes a VM first and its disk afterwards leaves, when that fails, a VM without a disk; and one that
// then begins again leaves another each time. Nothing marks such a VM. It can be told because it holds nothing, has
// never been started, and has nothing to start from or is one of several that are alike.

// isEmpty reports whether a VM holds nothing that could be lost, and does not run.
func (l *look) isEmpty(r volumeuse.Reading) bool {
	config := r.Config.Current()
	_, marked := ownership.Parse(config["description"])
	switch {
	case r.Guest.Type != "qemu", r.Guest.HAState != "", r.Guest.Status != "stopped" && r.Guest.Status != "unknown":
		return false
	case marked || config["template"] == "1" || config["protection"] == "1" || config["lock"] != "":
		return false
	case len(r.Snapshots) > 0 || len(r.Config.Waiting()) > 0:
		return false
	}
	for _, slot := range vm.Slots(config) {
		if guest.VolumeOf(config[slot]) != "none" {
			return false
		}
	}
	for option := range config { // what else can hold or bring data
		for _, kind := range []string{"args", "unused", "hostpci", "virtiofs", "usb"} {
			if strings.HasPrefix(option, kind) {
				return false
			}
		}
	}
	_, volumes := l.sizeOf(r.Guest.VMID)
	return volumes == 0
}

// startsFromNetwork reports whether a VM without disks may start from the network.
func startsFromNetwork(config map[string]string) bool {
	order, ordered := strings.CutPrefix(config["boot"], "order=")
	for option := range config {
		digits, isNet := strings.CutPrefix(option, "net")
		if !isNet || digits == "" || strings.Trim(digits, "0123456789") != "" {
			continue
		}
		if !ordered || slices.Contains(strings.Split(order, ";"), option) {
			return true
		}
	}
	return false
}

// judgeEmpty judges the VMs that hold nothing.
func (l *look) judgeEmpty(ctx context.Context, empty []volumeuse.Reading) error {
	alike := map[string]int{}
	for _, r := range empty {
		alike[nameOf(r.Config.Current())]++
	}
	for _, r := range empty {
		if l.only != nil && !l.only.is(r.Guest.VMID) {
			continue
		}
		config := r.Config.Current()
		name := nameOf(config)
		why := "it has nothing to start from"
		if startsFromNetwork(config) {
			why = fmt.Sprintf("there are %d of this name that are alike", alike[name])
			if name == "" || alike[name] < 2 {
				if !l.only.isPinned() { // the last of several is still what was listed when they were several
					continue
				}
				why = "it is named with the time at which it was listed to be made"
			}
		}
		made, ok, err := l.onlyMade(ctx, r.Guest.VMID)
		if err != nil {
			l.miss("VMs without a disk", err)
			return ctx.Err()
		}
		if !ok {
			continue
		}
		status, err := l.api.QEMU(r.Guest.Node, r.Guest.VMID).Status(ctx)
		if err != nil {
			l.miss(fmt.Sprintf("%s on node %s", guest.Named(r.Guest), r.Guest.Node), err)
			continue
		}
		if status.IsRunning() {
			continue
		}
		i := Item{Kind: HalfMade, ID: fmt.Sprint(r.Guest.VMID), VMID: r.Guest.VMID, Name: name, Node: r.Guest.Node,
			Since:     made.StartTime,
			Certainty: Likely, Command: destroyOf(r.Guest.Node, r.Guest.VMID, config), found: foundOf(r)}
		i.Reason = fmt.Sprintf("%s made it without a disk, no task has started it since, and %s", made.UPID.User(), why)
		if l.guests.Now().Sub(made.StartTime) < fresh {
			i.Certainty = Unknown
			i.Reason += "; it is so new that its maker may still be at work"
		}
		l.add(i)
	}
	return nil
}

// onlyMade finds the task that made a VM, where no other task but changes of its options is known since.
func (l *look) onlyMade(ctx context.Context, vmid int) (made pve.Task, ok bool, err error) {
	var makers []pve.Task
	if away := l.offline(); len(away) > 0 {
		return made, false, fmt.Errorf("whether they were ever started cannot be told while the nodes %v are not online",
			away)
	}
	for _, node := range l.nodes() {
		audits, err := l.jobs.Audits(ctx, node)
		if err != nil {
			return made, false, err
		}
		if !audits {
			return made, false, fmt.Errorf("whether they were ever started cannot be seen without Sys.Audit on /nodes/%s", node)
		}
		tasks, err := l.api.Tasks().List(ctx, node, pve.TaskFilter{VMID: vmid})
		if err != nil {
			return made, false, err
		}
		for _, t := range tasks {
			switch typ := t.UPID.Type(); {
			case t.Running():
				return made, false, nil
			case typ == "qmcreate" || typ == "qmrestore":
				makers = append(makers, t)
			case typ != "qmconfig" && typ != "qmdestroy":
				return made, false, nil
			}
		}
	}
	makers, err = l.jobs.Youngest(ctx, makers)
	if err != nil || len(makers) != 1 {
		return made, false, err
	}
	return makers[0], true, nil
}
