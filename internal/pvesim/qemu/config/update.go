package config

import (
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// update is one change of a configuration (qemu-server API2/Qemu.pm, update_vm_api).
type update struct {
	*engine.Request
	params   map[string]string // options to set
	deletes  []string
	reverts  []string
	force    bool
	skiplock bool
	digest   string
	line     string // the request as the task log shows it
}

// Put is PUT config: the change has been made when it answers.
func Put(r *engine.Request) (any, error) {
	u, err := NewUpdate(r)
	if err != nil {
		return nil, err
	}
	if err := u.early(); err != nil {
		return nil, err
	}
	release, err := guest.Lock(r, engine.LockTimeout)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := u.Check(); err != nil {
		return nil, err
	}
	return nil, u.Run(nil)
}

// Post is POST config: the change is made in a task.
func Post(r *engine.Request) (any, error) {
	u, err := NewUpdate(r)
	if err != nil {
		return nil, err
	}
	if err := u.early(); err != nil {
		return nil, err
	}
	if !r.W.Has(state.ForksFirst) {
		if err := u.checkLocked(); err != nil {
			return nil, err
		}
	}
	upid := guest.Fork(r, "qmconfig", func(w *engine.Worker) error {
		release, err := guest.LockInTask(w, r.VMID(), false, engine.LockTimeout)
		if err != nil {
			return err
		}
		defer release()
		if r.W.Has(state.ForksFirst) {
			if err := u.Check(); err != nil {
				return err
			}
		}
		w.Logf("update VM %d: %s", r.VMID(), u.line)
		return u.Run(w)
	})
	if delay, _ := strconv.Atoi(r.Params["background_delay"]); delay > 0 {
		return drive.Await(r, upid, delay, "failed to update VM "+r.Params["vmid"]+": ")
	}
	return upid, nil
}

// checkLocked is Check under the lock of the configuration file, which the worker inherits in PVE.
func (u *update) checkLocked() error {
	release, err := guest.Lock(u.Request, engine.LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	return u.Check()
}

// early is Check before any lock, where the release has it: it is repeated, and notes nothing (load_and_check_config).
func (u *update) early() error {
	if !u.W.Has(state.ForksFirst) {
		return nil
	}
	checked := *u
	checked.deletes, checked.params = slices.Clone(u.deletes), maps.Clone(u.params)
	return checked.Check()
}

// Unlink is PUT unlink: delete with a list.
func Unlink(r *engine.Request) (any, error) {
	inner := *r
	inner.Params = map[string]string{"node": r.Node(), "vmid": r.Params["vmid"], "delete": r.Params["idlist"]}
	if r.Flag("force") {
		inner.Params["force"] = "1"
	}
	return Put(&inner)
}

// NewUpdate does what PVE checks before it takes the configuration's lock.
func NewUpdate(r *engine.Request) (*update, error) {
	u := &update{Request: r, params: maps.Clone(r.Params), force: r.Flag("force"), digest: r.Params["digest"]}
	for _, k := range []string{"node", "vmid", "digest", "background_delay", "import-working-storage"} {
		delete(u.params, k)
	}
	u.hashPassword()
	u.line = u.logLine()
	var err error
	if u.skiplock, err = guest.SkipLock(r); err != nil {
		return nil, err
	}
	deletes, reverts := u.params["delete"], u.params["revert"]
	for _, k := range []string{"skiplock", "delete", "revert", "force"} {
		delete(u.params, k)
	}
	if keys, ok := u.params["sshkeys"]; ok {
		if err := CheckSSHKeys(keys); err != nil {
			return nil, err
		}
	}
	ClampUnits(r.W.Nodes[r.Node()], u.params)
	if deletes == "" && reverts == "" && len(u.params) == 0 {
		return nil, perl.Die("no options specified")
	}
	ResolveCDROM(u.params)
	if err := u.split(deletes, reverts); err != nil {
		return nil, err
	}
	if err := drive.CheckDrives(r, u.params); err != nil {
		return nil, err
	}
	if err := drive.CheckReplication(r, u.params); err != nil {
		return nil, err
	}
	u.generate()
	if script, ok := u.params["hookscript"]; ok {
		if err := CheckHookscript(r.W, r.Node(), script); err != nil {
			return nil, perl.Invalid("hookscript", perl.Message(err)+"\n")
		}
	}
	if err := u.authorize(); err != nil {
		return nil, err
	}
	return u, nil
}

func (u *update) generate() {
	for _, k := range slices.Sorted(maps.Keys(u.params)) {
		if drive.HasIndex(k, "net") {
			if n := drive.ParseNet(u.Engine, u.W, k, u.params[k]); n != nil {
				u.params[k] = drive.PrintNet(u.Engine, k, n)
			}
		}
	}
	if u.params["vmgenid"] == "1" {
		u.params["vmgenid"] = u.W.UUID()
	}
}

// CheckHookscript refuses a hook script that a node could not run. In an update it comes before the question who asks
// (qemu-server API2/Qemu.pm, update_vm_api; pve-guest-common GuestHelpers.pm, check_hookscript).
func CheckHookscript(w *state.World, node, volid string) error {
	id, name, _ := state.SplitVolid(volid)
	s, err := w.StorageConfig(id)
	if err != nil {
		return err
	}
	n, err := s.ParseName(name)
	switch {
	case err != nil:
		return err
	case n.Content != "snippets":
		return perl.Die("'%s' is not in the snippets directory", volid)
	case w.Volume(node, volid) == nil:
		return perl.Die("script '%s' does not exist", volid)
	case w.Volume(node, volid).Mode.Bits()&0o111 == 0: // for root one bit of the three is enough
		return perl.Die("script '%s' is not executable", volid)
	}
	return nil
}

func (u *update) authorize() error {
	vmid := u.VMID()
	if err := CheckOptions(u.Request, vmid, "", slices.Clone(u.deletes)); err != nil {
		return err
	}
	if err := CheckOptions(u.Request, vmid, "", slices.Collect(maps.Keys(u.params))); err != nil {
		return err
	}
	if err := drive.CheckStorageAccess(u.Request, vmid, u.params, ""); err != nil {
		return err
	}
	if err := CheckBridges(u.Request, u.params); err != nil {
		return err
	}
	was := "" // a VM that is not there is refused later
	if g := u.W.Guests[vmid]; g != nil {
		was = g.Config["cpu"]
	}
	return CheckCPUModel(u.Request, u.params["cpu"], was)
}

func (u *update) split(deletes, reverts string) error {
	for _, opt := range perl.SplitList(reverts) {
		if !optionExists(u.Engine, opt) {
			return perl.Invalid("revert", fmt.Sprintf("unknown option '%s'", opt))
		}
		if _, set := u.params[opt]; set {
			return perl.Invalid("delete", fmt.Sprintf("you can't use '-%s' and -revert %s' at the same time", opt, opt))
		}
		u.reverts = append(u.reverts, opt)
	}
	for _, opt := range perl.SplitList(deletes) {
		if opt == "cdrom" {
			opt = "ide2"
		}
		if _, set := u.params[opt]; set {
			return perl.Invalid("delete", fmt.Sprintf("you can't use '-%s' and -delete %s' at the same time", opt, opt))
		}
		if slices.Contains(u.reverts, opt) {
			return perl.Invalid("revert", fmt.Sprintf("you can't use '-delete %s' and -revert %s' at the same time", opt, opt))
		}
		if !optionExists(u.Engine, opt) {
			return perl.Invalid("delete", fmt.Sprintf("unknown option '%s'", opt))
		}
		u.deletes = append(u.deletes, opt)
	}
	return nil
}

var hashed = regexp.MustCompile(`^\$(?:[156]|2[ay])(\$.+){2}`)

// hashPassword is what an update does with cipassword, and a create does not. Windows guests need it in clear.
func (u *update) hashPassword() {
	clear, ok := u.params["cipassword"]
	if !ok || hashed.MatchString(clear) {
		return
	}
	ostype := u.params["ostype"]
	if g, err := guest.Load(u.Request); err == nil && ostype == "" {
		ostype = g.Config["ostype"]
	}
	if isWindows(ostype) {
		return
	}
	salt := u.W.UUID()[:8]
	sum := sha512.Sum512([]byte(salt + clear)) // the form of a crypt hash is enough: no guest reads it
	u.params["cipassword"] = "$6$" + salt + "$" + base64.RawStdEncoding.EncodeToString(sum[:])
}

func (u *update) logLine() string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(u.params)) {
		v := u.params[k]
		if k == "cipassword" {
			v = "<hidden>"
		}
		words = append(words, "-"+k+" "+v)
	}
	return strings.Join(words, " ")
}

// Check does what PVE checks under the lock: digest, lock, memory.
func (u *update) Check() error {
	g, err := guest.Load(u.Request)
	if err != nil {
		return err
	}
	if u.digest != "" && u.digest != g.Digest() {
		return perl.Die("checksum mismatch (file change by other user?)")
	}
	if slices.Contains(u.deletes, "vmstate") && g.Lock() == "suspended" {
		u.deletes = append(u.deletes, "lock")
	} else if err := guest.CheckLock(g); err != nil && !u.skiplock {
		return err
	}
	for _, opt := range u.reverts {
		if v, ok := g.Config[opt]; ok {
			u.params[opt] = v
		} else if _, ok := g.Pending[opt]; ok {
			u.deletes = append(u.deletes, opt)
		}
	}
	return u.checkBalloon(g)
}

func (u *update) checkBalloon(g *state.Guest) error {
	_, m := u.params["memory"]
	_, b := u.params["balloon"]
	if !m && !b {
		return nil
	}
	first := func(key, def string) int {
		for _, conf := range []map[string]string{u.params, g.Pending, g.Config} {
			if v, ok := conf[key]; ok {
				n, _ := strconv.Atoi(perl.Subvalue(v, "current", true))
				return n
			}
		}
		n, _ := strconv.Atoi(def)
		return n
	}
	if balloon := first("balloon", "0"); balloon > first("memory", "512") {
		return perl.Die("balloon value too large (must be smaller than assigned memory)")
	}
	return nil
}
