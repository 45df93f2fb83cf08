package ssh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

// volumeForm matches a volume id. The check is needed although all words are quoted: a word that begins with "-" would
// be an option.
var volumeForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*:[^\s'"]+$`)

// Unlock removes the lock from the configuration of a VM on that node (qm unlock). A VM without a lock is no error; a
// missing VM is one.
func (s *Shell) Unlock(ctx context.Context, node string, vmid int) error {
	op := fmt.Sprintf("unlock VM %d", vmid)
	if err := checkVMID(op, node, vmid); err != nil {
		return err
	}
	if err := refuseWhereReading(ctx, op, node); err != nil {
		return err
	}
	_, err := s.run(ctx, op, node, "qm", "unlock", strconv.Itoa(vmid))
	return err
}

// optionForm matches the name of an option of a VM.
var optionForm = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// SetVM sets options of a VM as root, if its configuration has that digest (qm set). The options may name files by
// their paths, which PVE's API accepts only from root@pam with a password. The command holds the lock of the VM until a
// copy is done, and prints the lines that a task would log.
func (s *Shell) SetVM(ctx context.Context, node string, vmid int, options map[string]string, digest string) (string,
	error) {
	op := fmt.Sprintf("set options of VM %d", vmid)
	if err := checkVMID(op, node, vmid); err != nil {
		return "", err
	}
	if err := refuseWhereReading(ctx, op, node); err != nil {
		return "", err
	}
	args := []string{"qm", "set", strconv.Itoa(vmid)}
	for _, option := range slices.Sorted(maps.Keys(options)) {
		if !optionForm.MatchString(option) || options[option] == "" || strings.HasPrefix(options[option], "-") {
			return "", refusal(op, node, "this is no option of a VM: "+strconv.Quote(option+"="+options[option]))
		}
		args = append(args, "--"+option, options[option])
	}
	if digest != "" {
		args = append(args, "--digest", digest)
	}
	return s.run(ctx, op, node, args...)
}

// FreeVolume removes a volume by its id (pvesm free). A volume that does not exist is success.
func (s *Shell) FreeVolume(ctx context.Context, node, volid string) error {
	op := "free volume " + volid
	if !volumeForm.MatchString(volid) {
		return refusal(op, node, "this is not a volume id (storage:name)")
	}
	if err := refuseWhereReading(ctx, op, node); err != nil {
		return err
	}
	_, err := s.run(ctx, op, node, "pvesm", "free", volid)
	if isNoVolume(err) {
		return nil
	}
	return err
}

// SHA256 returns the checksum of the content of a volume in hexadecimal digits: of its file, or of the whole block
// device (pvesm path, sha256sum). It reads the whole volume.
func (s *Shell) SHA256(ctx context.Context, node, volid string) (string, error) {
	op := "compute the checksum of volume " + volid
	path, err := s.volumePath(ctx, op, node, volid)
	if err != nil {
		return "", err
	}
	out, err := s.run(ctx, op, node, "sha256sum", "--", path)
	if err != nil {
		return "", err
	}
	sum, _, _ := strings.Cut(strings.TrimPrefix(out, "\\"), " ") // GNU coreutils escape the line where the name needs it
	if !checksumForm.MatchString(sum) {
		return "", refusal(op, node, "sha256sum answered "+strconv.Quote(out))
	}
	return sum, nil
}

// volumePath returns the path of a volume on a node.
func (s *Shell) volumePath(ctx context.Context, op, node, volid string) (string, error) {
	if !volumeForm.MatchString(volid) {
		return "", refusal(op, node, "this is not a volume id (storage:name)")
	}
	out, err := s.run(ctx, op, node, "pvesm", "path", volid)
	if err != nil {
		return "", err
	}
	path := strings.TrimSuffix(out, "\n")
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "\n") {
		return "", refusal(op, node, "pvesm names no file and no device for it, but "+strconv.Quote(path))
	}
	return path, nil
}

// checksumForm matches a SHA-256 in hexadecimal digits.
var checksumForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// checkVMID refuses ids outside PVE's range of VMIDs (pve-common, JSONSchema.pm pve-vmid).
func checkVMID(op, node string, vmid int) error {
	if vmid < 100 || vmid > 999999999 {
		return refusal(op, node, "a VMID is between 100 and 999999999")
	}
	return nil
}

// refuseWhereReading is the error of a change within an operation that only reads: a plan, a refresh or an import.
func refuseWhereReading(ctx context.Context, op, node string) error {
	if err := oplog.From(ctx).RefuseWrite(op + " on node " + node); err != nil {
		return refusal(op, node, err.Error())
	}
	return nil
}

func refusal(op, node, why string) error {
	return &Error{Op: op, Node: node, ExitStatus: -1, Err: errors.New(why)}
}
