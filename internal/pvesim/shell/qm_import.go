package shell

import (
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// qmImport is qm disk import: an image on the node becomes a new volume, attached as unusedN or to --target-disk.
func (s *Shell) qmImport(args []string, opts map[string]string) int {
	vmid, ok := s.target(args)
	if !ok || len(args) < 3 {
		return s.usage("qm disk import <vmid> <source> <storage> [OPTIONS]")
	}
	source, storage := args[1], args[2]
	inner := *s.r
	inner.Params = map[string]string{"node": s.r.Node(), "vmid": args[0]}
	m := &drive.Maker{Process: engine.Process{Request: &inner, Worker: nil}, Node: s.r.Node(), Vmid: vmid,
		Conf: map[string]string{}}
	release, err := guest.Lock(&inner, engine.LockTimeout)
	if err != nil {
		return s.fail(err)
	}
	defer release()
	g, err := guest.Load(&inner)
	if err != nil {
		return s.fail(err)
	}
	if err := guest.CheckLock(g); err != nil {
		return s.fail(err)
	}
	image, err := m.ImportPath(source)
	if err != nil {
		return s.fail(perl.Die("%s: non-existent or non-regular file", source))
	}
	if st, err := s.r.W.StorageEnabled(s.r.Node(), storage); err != nil {
		return s.fail(err)
	} else if !st.Has("images") {
		return s.fail(perl.Die("storage %s does not support vm images", storage))
	}
	_, _ = fmt.Fprintf(s.out, "importing disk '%s' to VM %d ...\n", source, vmid)
	d := drive.Drive{"format": opts["format"]}
	if err := m.ImportDisk("scsi0", d, storage, source); err != nil {
		return s.fail(err)
	}
	if v := s.r.W.Volume(s.r.Node(), d.File()); opts["format"] != "" && v != nil && v.Format != opts["format"] {
		_, _ = fmt.Fprintf(s.err, "format '%s' is not supported by the target storage - using '%s' instead\n", // do_import
			opts["format"], v.Format)
	}
	return s.attach(g, d, image, opts["target-disk"])
}

func (s *Shell) attach(g *state.Guest, d drive.Drive, image *state.Volume, option string) int {
	volid := d.File()
	if option == "" {
		config.AddUnused(g.Config, volid)
		for n := range 256 {
			if key := fmt.Sprintf("unused%d", n); g.Config[key] == volid {
				option = key
			}
		}
	} else {
		g.Config[option] = volid + ",size=" + schema.FormatSize(image.Size)
	}
	config.Write(s.r.Engine, g)
	_, _ = fmt.Fprintf(s.out, "%s: successfully imported disk '%s'\n", option, volid)
	return 0
}
