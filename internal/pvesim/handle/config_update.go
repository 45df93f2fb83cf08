package handle

import (
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// update is one change of a configuration (qemu-server API2/Qemu.pm, update_vm_api).
type update struct {
	*Request
	params   map[string]string // options to set
	deletes  []string
	reverts  []string
	force    bool
	skiplock bool
	digest   string
	line     string // the request as the task log shows it
}

func configPut(r *Request) (any, error) {
	u, err := r.newUpdate()
	if err != nil {
		return nil, err
	}
	release, err := r.lockGuest(LockTimeout)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := u.check(); err != nil {
		return nil, err
	}
	return nil, u.run(nil)
}

func configPost(r *Request) (any, error) {
	u, err := r.newUpdate()
	if err != nil {
		return nil, err
	}
	release, err := r.lockGuest(LockTimeout)
	if err != nil {
		return nil, err
	}
	err = u.check()
	release()
	if err != nil {
		return nil, err
	}
	upid := r.task("qmconfig", func(w *Worker) error {
		release, err := w.lockGuest(r.vmid(), false, LockTimeout)
		if err != nil {
			return err
		}
		defer release()
		w.Logf("update VM %d: %s", r.vmid(), u.line)
		return u.run(w)
	})
	if delay, _ := strconv.Atoi(r.Params["background_delay"]); delay > 0 {
		return r.await(upid, delay, "failed to update VM "+r.Params["vmid"]+": ")
	}
	return upid, nil
}

// await waits up to so many seconds for a task: null if it ended well in that time, an error if it failed, else its UPID.
func (r *Request) await(upid string, seconds int, prefix string) (any, error) {
	r.startForked()
	task := r.W.Tasks[upid]
	r.Server.Wait(time.Duration(seconds)*time.Second, func() bool { return !task.Running })
	switch {
	case task.Running:
		return upid, nil
	case task.ExitStatus != "OK" && !strings.HasPrefix(task.ExitStatus, "WARNINGS: "):
		return nil, Die("%s%s", prefix, task.ExitStatus)
	}
	return nil, nil
}

// configUnlink is PUT unlink: delete with a list.
func configUnlink(r *Request) (any, error) {
	inner := *r
	inner.Params = map[string]string{"node": r.node(), "vmid": r.Params["vmid"], "delete": r.Params["idlist"]}
	if r.flag("force") {
		inner.Params["force"] = "1"
	}
	return configPut(&inner)
}

// newUpdate does what PVE checks before it takes the configuration's lock.
func (r *Request) newUpdate() (*update, error) {
	u := &update{Request: r, params: maps.Clone(r.Params), force: r.flag("force"), digest: r.Params["digest"]}
	for _, k := range []string{"node", "vmid", "digest", "background_delay", "import-working-storage"} {
		delete(u.params, k)
	}
	u.hashPassword()
	u.line = u.logLine()
	var err error
	if u.skiplock, err = r.skiplock(); err != nil {
		return nil, err
	}
	deletes, reverts := u.params["delete"], u.params["revert"]
	for _, k := range []string{"skiplock", "delete", "revert", "force"} {
		delete(u.params, k)
	}
	if keys, ok := u.params["sshkeys"]; ok {
		if err := checkSSHKeys(keys); err != nil {
			return nil, err
		}
	}
	clampUnits(r.W.Nodes[r.node()], u.params)
	if deletes == "" && reverts == "" && len(u.params) == 0 {
		return nil, Die("no options specified")
	}
	resolveCDROM(u.params)
	if err := u.split(deletes, reverts); err != nil {
		return nil, err
	}
	if err := r.checkDrives(u.params); err != nil {
		return nil, err
	}
	u.generate()
	if err := u.authorize(); err != nil {
		return nil, err
	}
	return u, nil
}

func (u *update) generate() {
	for _, k := range slices.Sorted(maps.Keys(u.params)) {
		if hasIndex(k, "net") {
			if n := u.Server.parseNet(u.W, k, u.params[k]); n != nil {
				u.params[k] = u.Server.printNet(k, n)
			}
		}
	}
	if u.params["vmgenid"] == "1" {
		u.params["vmgenid"] = u.W.UUID()
	}
}

func (u *update) authorize() error {
	vmid := u.vmid()
	if err := u.checkOptions(vmid, "", slices.Clone(u.deletes)); err != nil {
		return err
	}
	if err := u.checkOptions(vmid, "", slices.Collect(maps.Keys(u.params))); err != nil {
		return err
	}
	if err := u.checkStorageAccess(vmid, u.params, ""); err != nil {
		return err
	}
	return u.checkBridges(u.params)
}

func (u *update) split(deletes, reverts string) error {
	for _, opt := range splitList(reverts) {
		if !u.Server.optionExists(opt) {
			return Invalid("revert", fmt.Sprintf("unknown option '%s'", opt))
		}
		if _, set := u.params[opt]; set {
			return Invalid("delete", fmt.Sprintf("you can't use '-%s' and '-revert %s' at the same time", opt, opt))
		}
		u.reverts = append(u.reverts, opt)
	}
	for _, opt := range splitList(deletes) {
		if opt == "cdrom" {
			opt = "ide2"
		}
		if _, set := u.params[opt]; set {
			return Invalid("delete", fmt.Sprintf("you can't use '-%s' and -delete %s' at the same time", opt, opt))
		}
		if slices.Contains(u.reverts, opt) {
			return Invalid("revert", fmt.Sprintf("you can't use '-delete %s' and '-revert %s' at the same time", opt, opt))
		}
		if !u.Server.optionExists(opt) {
			return Invalid("delete", fmt.Sprintf("unknown option '%s'", opt))
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
	if g, err := u.guest(); err == nil && ostype == "" {
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

// check does what PVE checks under the lock: digest, lock, memory.
func (u *update) check() error {
	g, err := u.guest()
	if err != nil {
		return err
	}
	if u.digest != "" && u.digest != g.Digest() {
		return Die("checksum mismatch (file change by other user?)")
	}
	if slices.Contains(u.deletes, "vmstate") && g.Lock() == "suspended" {
		u.deletes = append(u.deletes, "lock")
	} else if err := checkLock(g); err != nil && !u.skiplock {
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
				n, _ := strconv.Atoi(subvalue(v, "current", true))
				return n
			}
		}
		n, _ := strconv.Atoi(def)
		return n
	}
	if balloon := first("balloon", "0"); balloon > first("memory", "512") {
		return Die("balloon value too large (must be smaller than assigned memory)")
	}
	return nil
}
