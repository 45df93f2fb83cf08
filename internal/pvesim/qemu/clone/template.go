package clone

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Template is POST template: the flag is written first, then the disks are converted one by one.
func Template(r *engine.Request) (any, error) {
	release, err := guest.Lock(r, engine.LockTimeout)
	if err != nil {
		return nil, err
	}
	defer release()
	g, err := templateChecks(r)
	if err != nil {
		return nil, err
	}
	g.Config["template"] = "1"
	return guest.Fork(r, "qmtemplate", func(w *engine.Worker) error {
		release, err := guest.LockInTask(w, r.VMID(), false, engine.LockTimeout)
		if err != nil {
			return err
		}
		defer release()
		g, err := guest.Load(r)
		if err != nil {
			return err
		}
		return convert(r, w, g)
	}), nil
}

func templateChecks(r *engine.Request) (*state.Guest, error) {
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	if err := guest.CheckLock(g); err != nil {
		return nil, err
	}
	switch {
	case len(g.Snaps) > 0:
		return nil, perl.Die("unable to create template, because VM contains snapshots")
	case g.IsTemplate() && r.Params["disk"] == "":
		return nil, perl.Die("you can't convert a template to a template")
	case g.Running != nil:
		return nil, perl.Die("you can't convert a VM to template if VM is running")
	}
	return g, nil
}

func convert(r *engine.Request, w *engine.Worker, g *state.Guest) error {
	asked := false
	for _, opt := range drive.BootNames(g.Config) {
		d := drive.Parse(r.Engine, opt, g.Config[opt])
		if d == nil || d.IsCDROM() || r.Params["disk"] != "" && r.Params["disk"] != opt {
			continue
		}
		id, name, _ := state.SplitVolid(d.File())
		s := r.W.Storages[id]
		if s == nil || !s.CanTemplate() {
			continue
		}
		if n, err := s.ParseName(name); err != nil || n.IsBase {
			continue
		}
		v := r.W.Volume(g.Node, d.File())
		if v == nil {
			return perl.Die("volume '%s' does not exist", d.File())
		}
		if err := r.LockStorage(g.Node, id); err != nil {
			return err
		}
		if _, err := r.W.CreateBase(v); err != nil {
			return err
		}
		if !asked {
			asked = true
			if err := w.Checkpoint(); err != nil {
				d["file"] = v.Volid() // PVE has written the new name by then
				g.Config[opt] = drive.Print(r.Engine, opt, d)
				return err
			}
		}
		d["file"] = v.Volid()
		g.Config[opt] = drive.Print(r.Engine, opt, d)
	}
	if !asked {
		return w.Checkpoint()
	}
	return nil
}

// Feature is GET feature: whether all drives can do it, and on which nodes (API2/Qemu.pm, vm_feature).
func Feature(r *engine.Request) (any, error) {
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	conf, name := g.Config, r.Params["snapname"]
	if name != "" {
		if conf = g.Snaps[name]; conf == nil {
			return nil, perl.Die("snapshot '%s' does not exist", name)
		}
	}
	return map[string]any{"hasFeature": perl.Flag(drive.HasFeature(r, r.Params["feature"], conf, name)),
		"nodes": []string{g.Node}}, nil
}
