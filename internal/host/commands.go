package host

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Forms of what goes into commands. They are checked although everything is quoted, because a word that begins with "-"
// would be an option.
var (
	volumeForm  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*:[^\s'"]+$`)
	storageForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)
	datasetForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.:-]*(/[A-Za-z0-9_.:-]+)*$`)
	imported    = regexp.MustCompile(`(?i)successfully imported disk (?:as )?'(?:unused\d+:)?([^']+)'`)
)

// Unlock takes the lock out of the configuration of a VM on that node (qm unlock). Not to be locked is no error; not to
// exist is one (IsNoGuest).
func (s *Shell) Unlock(ctx context.Context, node string, vmid int) error {
	op := fmt.Sprintf("unlock VM %d", vmid)
	if err := checkVMID(op, node, vmid); err != nil {
		return err
	}
	_, err := s.run(ctx, request{op: op, node: node, args: []string{"qm", "unlock", strconv.Itoa(vmid)}, again: true})
	return err
}

// FreeVolume removes a volume by its id (pvesm free). A volume that does not exist is success.
func (s *Shell) FreeVolume(ctx context.Context, node, volid string) error {
	op := "free volume " + volid
	if !volumeForm.MatchString(volid) {
		return refusal(op, node, "this is not a volume id (storage:name)")
	}
	_, err := s.run(ctx, request{op: op, node: node, args: []string{"pvesm", "free", volid}, again: true})
	if isNoVolume(err) {
		return nil
	}
	return err
}

// DestroyDataset removes a ZFS dataset (zfs destroy, never with -r: what has snapshots, clones or children stays and is
// an error). A dataset that does not exist is success. Pools and snapshots are refused.
func (s *Shell) DestroyDataset(ctx context.Context, node, dataset string) error {
	op := "destroy dataset " + dataset
	if !datasetForm.MatchString(dataset) || !strings.Contains(dataset, "/") {
		return refusal(op, node, "this is not a dataset inside a pool (pool/name)")
	}
	_, err := s.run(ctx, request{op: op, node: node, args: []string{"zfs", "destroy", dataset}, again: true})
	if isNoVolume(err) {
		return nil
	}
	return err
}

// Datasets lists the ZFS filesystems and volumes directly below parent by their full names, in the order of zfs list.
func (s *Shell) Datasets(ctx context.Context, node, parent string) ([]string, error) {
	op := "list datasets of " + parent
	if !datasetForm.MatchString(parent) {
		return nil, refusal(op, node, "this is not a dataset")
	}
	out, err := s.run(ctx, request{op: op, node: node, again: true,
		args: []string{"zfs", "list", "-H", "-o", "name", "-t", "filesystem,volume", "-d", "1", parent}})
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range strings.Lines(out) {
		name = strings.TrimSpace(name)
		if name != "" && name != parent {
			names = append(names, name)
		}
	}
	return names, nil
}

// ImportDisk copies the disk image at source, an absolute path on the node, into a new volume of storage and attaches it
// to the VM as unusedN (qm disk import). format is raw, qcow2, vmdk or "" for the storage's own. It gives the id of the
// new volume. After a lost connection nobody knows whether there is one.
func (s *Shell) ImportDisk(ctx context.Context, node string, vmid int, source, storage, format string) (string, error) {
	op := fmt.Sprintf("import disk %s for VM %d", source, vmid)
	if err := checkVMID(op, node, vmid); err != nil {
		return "", err
	}
	switch {
	case !strings.HasPrefix(source, "/"):
		return "", refusal(op, node, "the source is not an absolute path")
	case !storageForm.MatchString(storage):
		return "", refusal(op, node, fmt.Sprintf("%q is not a storage", storage))
	}
	args := []string{"qm", "disk", "import", strconv.Itoa(vmid), source, storage}
	switch format {
	case "":
	case "raw", "qcow2", "vmdk":
		args = append(args, "--format", format)
	default:
		return "", refusal(op, node, fmt.Sprintf("format %q is not raw, qcow2 or vmdk", format))
	}
	out, err := s.run(ctx, request{op: op, node: node, args: args})
	if err != nil {
		return "", err
	}
	// 8.x and 9.x: "unused0: successfully imported disk 'local-zfs:vm-100-disk-0'"; before: "Successfully imported disk
	// as 'unused0:local-zfs:vm-100-disk-0'" (qemu-server CLI/qm.pm, importdisk).
	match := imported.FindStringSubmatch(out)
	if match == nil {
		return "", refusal(op, node, "qm ended well but did not name the new volume; it said: "+tidy(out))
	}
	return match[1], nil
}

// checkVMID holds PVE's bounds of a VMID (pve-common, JSONSchema.pm pve-vmid).
func checkVMID(op, node string, vmid int) error {
	if vmid < 100 || vmid > 999999999 {
		return refusal(op, node, "a VMID is between 100 and 999999999")
	}
	return nil
}

func refusal(op, node, why string) error {
	return &Error{Op: op, Node: node, ExitStatus: -1, Err: errors.New(why)}
}
