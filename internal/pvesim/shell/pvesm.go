package shell

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/storage"
)

func (s *Shell) pvesmFree(args []string, _ map[string]string) int {
	if len(args) == 0 {
		return s.usage("pvesm free <volume> [OPTIONS]")
	}
	id, _, ok := state.SplitVolid(args[0])
	if !ok {
		return s.fail(perl.Die("unable to parse volume ID '%s'", args[0]))
	}
	return s.call(storage.DeleteContent, map[string]string{"storage": id, "volume": args[0]})
}

func (s *Shell) pvesmPath(args []string, _ map[string]string) int {
	if len(args) == 0 {
		return s.usage("pvesm path <volume>")
	}
	id, name, ok := state.SplitVolid(args[0])
	if !ok {
		return s.fail(perl.Die("unable to parse volume ID '%s'", args[0]))
	}
	st, err := s.r.W.StorageConfig(id)
	if err != nil {
		return s.fail(err)
	}
	if _, err := st.ParseName(name); err != nil {
		return s.fail(err)
	}
	_, _ = fmt.Fprintln(s.out, st.VolumePath(name))
	return 0
}

func (s *Shell) pvesmList(args []string, opts map[string]string) int {
	if len(args) == 0 {
		return s.usage("pvesm list <storage> [OPTIONS]")
	}
	st, err := s.r.W.StorageActive(s.r.Node(), args[0])
	if err != nil {
		return s.fail(err)
	}
	vmid, _ := perl.ParseNumber(opts["vmid"])
	var rows []*state.Volume
	width := len("Volid")
	for _, v := range s.r.W.VolumesOn(s.r.Node(), st) {
		if vmid != 0 && v.VMID != vmid || opts["content"] != "" && opts["content"] != v.Content {
			continue
		}
		rows = append(rows, v)
		width = max(width, len(v.Volid()))
	}
	_, _ = fmt.Fprintf(s.out, "%-*s %-7s %-9s %12s VMID\n", width, "Volid", "Format", "Type", "Size")
	for _, v := range rows {
		line := fmt.Sprintf("%-*s %-7s %-9s %12d", width, v.Volid(), v.Format, v.Content, v.Size)
		if v.VMID != 0 {
			line += " " + strconv.Itoa(v.VMID)
		}
		_, _ = fmt.Fprintln(s.out, line)
	}
	return 0
}

// datasets are the ZFS filesystems and volumes of the node by name: the pools of its storages and the images in them.
func (s *Shell) datasets() map[string]*state.Volume {
	all := map[string]*state.Volume{}
	for _, st := range s.r.W.Storages {
		if st.Type != "zfspool" {
			continue
		}
		parts := strings.Split(st.Path, "/")
		for n := range parts {
			if name := strings.Join(parts[:n+1], "/"); all[name] == nil {
				all[name] = nil
			}
		}
		for _, v := range s.r.W.VolumesOn(s.r.Node(), st) {
			if n, err := st.ParseName(v.Name); err == nil {
				all[st.Path+"/"+n.File] = v
			}
		}
	}
	return all
}

func (s *Shell) zfsList(args []string, opts map[string]string) int {
	all := s.datasets()
	columns := []string{"name", "used", "avail", "refer", "mountpoint"}
	if opts["o"] != "" {
		columns = strings.Split(opts["o"], ",")
	}
	depth := -1
	if n, ok := perl.ParseNumber(opts["d"]); ok {
		depth = n
	}
	if len(args) > 0 && opts["d"] == "" && opts["r"] == "" {
		depth = 0
	}
	if opts["H"] == "" {
		_, _ = fmt.Fprintln(s.out, strings.ToUpper(strings.Join(columns, "  ")))
	}
	for _, root := range args {
		if _, ok := all[root]; !ok {
			_, _ = fmt.Fprintf(s.err, "cannot open '%s': dataset does not exist\n", root)
			return 1
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(args) > 0 && !slices.ContainsFunc(args, func(root string) bool { return below(name, root, depth) }) ||
			!typeWanted(all[name], opts["t"]) {
			continue
		}
		cells := make([]string, 0, len(columns))
		for _, c := range columns {
			cells = append(cells, s.zfsCell(name, all[name], c))
		}
		_, _ = fmt.Fprintln(s.out, strings.Join(cells, "\t"))
	}
	return 0
}

func below(name, root string, depth int) bool {
	if name == root {
		return true
	}
	rest, ok := strings.CutPrefix(name, root+"/")
	return ok && (depth < 0 || strings.Count(rest, "/") < depth)
}

func typeWanted(v *state.Volume, types string) bool {
	kind := "volume"
	if v == nil || v.Format == "subvol" {
		kind = "filesystem"
	}
	return types == "" || slices.Contains(strings.Split(types, ","), kind) || types == "all"
}

func (s *Shell) zfsCell(name string, v *state.Volume, column string) string {
	switch column {
	case "name":
		return name
	case "type":
		if typeWanted(v, "volume") {
			return "volume"
		}
		return "filesystem"
	case "used", "refer", "referenced", "volsize":
		if v != nil {
			return strconv.FormatInt(v.Size, 10)
		}
		return "0"
	case "origin":
		if v != nil && v.Parent != "" {
			return name[:strings.LastIndexByte(name, '/')+1] + v.Parent[strings.LastIndexByte(v.Parent, '/')+1:] + "@__base__"
		}
	}
	return "-"
}

// zfsDestroy knows no PVE: no lock, no owner, only datasets, their snapshots and clones.
func (s *Shell) zfsDestroy(args []string, opts map[string]string) int {
	if len(args) == 0 {
		_, _ = fmt.Fprintln(s.err, "missing dataset argument")
		return 2
	}
	name := args[0]
	all := s.datasets()
	v, ok := all[name]
	complain := func(format string, words ...any) int {
		_, _ = fmt.Fprintf(s.err, format+"\n", words...)
		return 1
	}
	switch {
	case !ok:
		return complain("cannot open '%s': dataset does not exist", name)
	case v == nil:
		return complain("cannot destroy '%s': operation does not apply to pools", name)
	}
	children, snaps := s.r.W.Children(v), slices.Clone(v.Snaps)
	if strings.HasPrefix(name[strings.LastIndexByte(name, '/')+1:], "base-") {
		snaps = append(snaps, "__base__")
	}
	switch {
	case len(children) > 0 && opts["R"] == "":
		return complain("cannot destroy '%s': filesystem has dependent clones\nuse '-R' to destroy the following "+
			"datasets:\n%s", name,
			children[0].Name)
	case len(snaps) > 0 && opts["r"] == "" && opts["R"] == "":
		return complain("cannot destroy '%s': volume has children\nuse '-r' to destroy the following datasets:\n%s@%s", name,
			name, snaps[0])
	case v.Busy != "" || s.r.W.OpenedBy(s.r.Node(), v) != 0:
		return complain("cannot destroy '%s': dataset is busy", name)
	}
	for _, c := range children {
		delete(s.r.W.Volumes, state.VolumeKey{Storage: c.Storage, Node: c.Node, Name: c.Name})
	}
	delete(s.r.W.Volumes, state.VolumeKey{Storage: v.Storage, Node: v.Node, Name: v.Name})
	return 0
}
