package handle

import (
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// qemuTemplate is POST template: the flag is written first, then the disks are converted one by one.
func qemuTemplate(r *Request) (any, error) {
	release, err := r.lockGuest(LockTimeout)
	if err != nil {
		return nil, err
	}
	defer release()
	g, err := r.templateChecks()
	if err != nil {
		return nil, err
	}
	g.Config["template"] = "1"
	return r.task("qmtemplate", func(w *Worker) error {
		release, err := w.lockGuest(r.vmid(), false, LockTimeout)
		if err != nil {
			return err
		}
		defer release()
		g, err := r.guest()
		if err != nil {
			return err
		}
		return r.convert(w, g)
	}), nil
}

func (r *Request) templateChecks() (*state.Guest, error) {
	g, err := r.guest()
	if err != nil {
		return nil, err
	}
	if err := checkLock(g); err != nil {
		return nil, err
	}
	switch {
	case len(g.Snaps) > 0:
		return nil, Die("unable to create template, because VM contains snapshots")
	case g.IsTemplate() && r.Params["disk"] == "":
		return nil, Die("you can't convert a template to a template")
	case g.Running != nil:
		return nil, Die("you can't convert a VM to template if VM is running")
	}
	if opt := r.Params["disk"]; opt != "" && g.Config[opt] == "" {
		return nil, Die("unable to find disk '%s'", opt)
	}
	return g, nil
}

func (r *Request) convert(w *Worker, g *state.Guest) error {
	asked := false
	for _, opt := range bootNames(g.Config) {
		d := r.Server.parseDrive(opt, g.Config[opt])
		if d == nil || d.isCDROM() || r.Params["disk"] != "" && r.Params["disk"] != opt {
			continue
		}
		id, name, _ := state.SplitVolid(d.file())
		s := r.W.Storages[id]
		if s == nil || !s.CanTemplate() {
			continue
		}
		if n, err := s.ParseName(name); err != nil || n.IsBase {
			continue
		}
		v := r.W.Volume(g.Node, d.file())
		if v == nil {
			return Die("volume '%s' does not exist", d.file())
		}
		if err := r.lockStorage(g.Node, id); err != nil {
			return err
		}
		if _, err := r.W.CreateBase(v); err != nil {
			return err
		}
		if !asked {
			asked = true
			if err := w.Checkpoint(); err != nil {
				d["file"] = v.Volid() // PVE has written the new name by then
				g.Config[opt] = r.Server.printDrive(opt, d)
				return err
			}
		}
		d["file"] = v.Volid()
		g.Config[opt] = r.Server.printDrive(opt, d)
	}
	if !asked {
		return w.Checkpoint()
	}
	return nil
}

// qemuFeature is GET feature: whether all drives can do it, and on which nodes (API2/Qemu.pm, vm_feature).
func qemuFeature(r *Request) (any, error) {
	g, err := r.guest()
	if err != nil {
		return nil, err
	}
	conf, name := g.Config, r.Params["snapname"]
	if name != "" {
		if conf = g.Snaps[name]; conf == nil {
			return nil, Die("snapshot '%s' does not exist", name)
		}
	}
	return map[string]any{"hasFeature": boolean(r.hasFeature(r.Params["feature"], conf, name)), "nodes": []string{g.Node}}, nil
}

// hasFeature is QemuConfig.pm's has_feature: CD-ROMs do not count, and of a linked clone neither does the cloud-init drive.
func (r *Request) hasFeature(feature string, conf map[string]string, snapname string) bool {
	_, volids := r.Server.disksOf(conf)
	for _, volid := range volids {
		if !r.volumeHas(feature, volid, snapname) {
			return false
		}
	}
	return true
}

// volumeHas is the plugins' volume_has_feature.
func (r *Request) volumeHas(feature, volid, snapname string) bool {
	id, name, _ := state.SplitVolid(volid)
	s := r.W.Storages[id]
	if s == nil {
		return false
	}
	n, err := s.ParseName(name)
	if err != nil {
		return false
	}
	of := "current"
	switch {
	case snapname != "":
		of = "snap"
	case n.IsBase:
		of = "base"
	}
	switch s.Type {
	case "zfspool":
		return slices.Contains(map[string][]string{"snapshot": {"current", "snap"}, "clone": {"base"}, "template": {"current"},
			"copy": {"base", "current"}, "rename": {"current"}}[feature], of)
	case "lvmthin":
		return slices.Contains(map[string][]string{"snapshot": {"current"}, "clone": {"base", "snap"}, "template": {"current"},
			"copy": {"base", "current", "snap"}, "rename": {"current"}}[feature], of)
	case "rbd":
		return slices.Contains(map[string][]string{"snapshot": {"current", "snap"}, "clone": {"base", "snap"}, "template": {"current"},
			"copy": {"base", "current", "snap"}, "rename": {"current"}}[feature], of)
	case "lvm":
		return slices.Contains(map[string][]string{"copy": {"base", "current"}, "rename": {"current"}}[feature], of)
	}
	snaps := n.Format == "qcow2" || s.Type == "btrfs" && n.Format == "raw"
	return slices.Contains(map[string][]string{"snapshot": {"current", "snap"}, "clone": {"base"}, "template": {"current"},
		"copy": {"base", "current", "snap"}, "rename": {"current"}}[feature], of) && (snaps || feature != "snapshot" && of != "snap")
}
