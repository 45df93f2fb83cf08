package handle

import (
	"fmt"

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
	inner.Params = map[string]string{"node": s.r.node(), "vmid": args[0]}
	m := &diskMaker{process: process{&inner, nil}, node: s.r.node(), vmid: vmid, conf: map[string]string{}}
	release, err := inner.lockGuest(LockTimeout)
	if err != nil {
		return s.fail(err)
	}
	defer release()
	g, err := inner.guest()
	if err != nil {
		return s.fail(err)
	}
	if err := checkLock(g); err != nil {
		return s.fail(err)
	}
	image, err := m.importPath(source)
	if err != nil {
		return s.fail(Die("%s: non-existent or non-regular file", source))
	}
	if st, err := s.r.W.StorageEnabled(s.r.node(), storage); err != nil {
		return s.fail(err)
	} else if !st.Has("images") {
		return s.fail(Die("storage %s does not support vm images", storage))
	}
	_, _ = fmt.Fprintf(s.out, "importing disk '%s' to VM %d ...\n", source, vmid)
	d := drive{"format": opts["format"]}
	if err := m.importDisk("scsi0", d, storage, source); err != nil {
		return s.fail(err)
	}
	return s.attach(g, d, image, opts["target-disk"])
}

func (s *Shell) attach(g *state.Guest, d drive, image *state.Volume, option string) int {
	volid := d.file()
	if option == "" {
		addUnused(g, volid)
		for n := range 256 {
			if key := fmt.Sprintf("unused%d", n); g.Config[key] == volid {
				option = key
			}
		}
	} else {
		g.Config[option] = volid + ",size=" + schema.FormatSize(image.Size)
	}
	s.r.Server.writeConfig(g)
	_, _ = fmt.Fprintf(s.out, "%s: successfully imported disk '%s'\n", option, volid)
	return 0
}
