package conformance_test

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/lab"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// A real cluster is asked only with TF_ACC set, and only what changes nothing unless PROXMOX_VE_TEST_CONFORMANCE says more.
//
// On a real cluster the tables' VMIDs, 100 to 999, are moved into the test range, and storages are those of the
// environment: PROXMOX_VE_TEST_DIR, _DIR2, _DIR3, _ZFS, _LVMTHIN, _LVM, _BTRFS, _DISABLED, each with _PATH for its path or
// pool where texts name it, _NODE and _BRIDGE. A row whose roles or identity are not there is not run.

const tableVMIDs = 900

// conformanceWrites is the value of PROXMOX_VE_TEST_CONFORMANCE that lets the suite make, change and destroy guests in the test range.
const conformanceWrites = "write"

// vmidMark finds the VMIDs in the tables' texts.
var vmidMark = regexp.MustCompile(`\btap[1-9]\d\d|(?:\bvm-|base-|\bVM |\bCT |/qemu/|^qemu/|qemu-server/|lock-|/vms/|images/|[}\w]:|~upid [a-z]+:|vmid=|^config )[1-9]\d\d\b`)

// shifted adds the offset to the VMID at the end of a mark.
func (s *conformer) shifted(mark string) string {
	at := len(mark) - 3
	n, err := strconv.Atoi(mark[at:])
	if err != nil {
		return mark
	}
	return mark[:at] + strconv.Itoa(n+s.offset)
}

// ownVMID moves the value of a parameter or member that is a VMID.
func (s *conformer) ownVMID(key, value string) string {
	if n, err := strconv.Atoi(value); err == nil && slices.Contains([]string{"vmid", "newid", "vms"}, key) && n >= 100 && n < 100+tableVMIDs {
		return strconv.Itoa(n + s.offset)
	}
	return value
}

var vmidAnywhere = regexp.MustCompile(`(?:vm-|base-|/qemu/|"vmid":"|"newid":"|"vms":")(\d+)`)

// strange names a VMID outside of the test range in a request that changes something: a third party's guest.
func (s *conformer) strange(method, path string, params map[string]string) string {
	if s.offset == 0 || method == "GET" {
		return ""
	}
	for _, m := range vmidAnywhere.FindAllStringSubmatch(path+compactJSON(params), -1) {
		if id, err := strconv.Atoi(m[1]); err != nil || id >= 100 && id < 100+s.offset || id >= 100+s.offset+tableVMIDs {
			return m[1]
		}
	}
	return ""
}

func (s *conformer) namedMember(key string, v any) any {
	if n, ok := v.(float64); ok && key == "vmid" && n >= 100 && n < 100+tableVMIDs {
		return n + float64(s.offset)
	}
	if text, ok := v.(string); ok && s.offset != 0 && key == "id" && regexp.MustCompile(`^[1-9]\d\d$`).MatchString(text) {
		return s.ownVMID("vmid", text)
	}
	return s.namedValue(v)
}

// reach decides which rows a real cluster can be asked.
type reach struct {
	s     *conformer
	files string
	spoil map[string]bool // VMIDs whose history on this server is not the recorded one
}

func newReach(s *conformer, table callTable) *reach {
	r := &reach{s, table.files, map[string]bool{}}
	for _, id := range table.spoilt {
		r.spoil[id] = true
	}
	return r
}

// refuses says why a row cannot be run; nothing if it can.
func (r *reach) refuses(row callRow, changedFromOutside bool) string {
	text := row.Do + " " + row.Reason + " " + row.Exit + compactAll(row.With, row.Data, row.Errors, row.Log, row.After)
	ids := vmidMark.FindAllString(row.Do+" "+compactAll(row.With, row.After), -1)
	for _, key := range []string{"vmid", "newid"} {
		if id := row.With[key]; len(id) == 3 {
			ids = append(ids, id)
		}
	}
	why := r.missing(row, text)
	for i, id := range ids {
		ids[i] = id[len(id)-3:]
		if why == "" && r.spoil[ids[i]] {
			why = "an earlier row about VM " + ids[i] + " was not run"
		}
	}
	switch {
	case why != "":
	case changedFromOutside:
		why = "the server is changed from outside before it"
	case r.s.reads && !strings.HasPrefix(row.Do, "GET"):
		why = "it may change something, and PROXMOX_VE_TEST_CONFORMANCE is not " + conformanceWrites
	case len(ids) == 0 && row.Status == 200:
		why = "the answer describes the recorded server"
	case !strings.HasPrefix(row.Do, "GET") && !strings.Contains(row.Do, "/nodes/") && !slices.Contains([]int{401, 501}, row.Status):
		why = "changes more of the cluster than the test's guests"
	}
	changes := !strings.HasPrefix(row.Do, "GET") && row.Status == 200 && (row.Exit == "" || row.Exit == "OK")
	if why != "" && (changedFromOutside || changes) {
		for _, id := range ids {
			r.spoil[id] = true
		}
	}
	return why
}

// missing names a role or an identity that the environment does not map.
func (r *reach) missing(row callRow, text string) string {
	switch row.As {
	case "none", "wrong secret", "unknown user", "unknown token", "malformed token", "token":
	case "root":
		if r.s.client.ticket == "" {
			return "no password of root@pam"
		}
	default:
		return "no identity " + strconv.Quote(row.As)
	}
	if strings.Contains(text, "{password}") && r.s.client.password == "" {
		return "no password of root@pam"
	}
	for _, mark := range roleMark.FindAllString(text, -1) {
		n, isTask := strings.CutPrefix(mark, "{task ")
		row, _ := strconv.Atoi(strings.TrimSuffix(n, "}"))
		if isTask && r.s.tasks[row] == "" || !isTask && mark != "{digest}" && mark != "{password}" && r.s.roles[mark] == "" {
			return "nothing has the role " + mark
		}
	}
	for _, fixed := range []string{"import/", "iso/", "snippets/"} {
		if strings.Contains(text, "{dir}:"+fixed) && !slices.Contains(strings.Split(os.Getenv("PROXMOX_VE_TEST_FILES"), ","), r.files) {
			return "PROXMOX_VE_TEST_FILES does not say that the recorded server's files are there"
		}
	}
	return ""
}

func (r *reach) refusesValue(row valueRow) string {
	return r.missing(callRow{As: row.As}, row.Sent+compactAll(row.Stored, row.Errors, row.Also))
}

func compactAll(values ...any) string {
	text := ""
	for _, v := range values {
		text += " " + compactJSON(v)
	}
	return text
}

// environmentRoles are the roles that the environment maps.
func environmentRoles() map[string]string {
	roles := map[string]string{}
	for _, role := range []string{"dir", "dir2", "dir3", "zfs", "lvmthin", "lvm", "btrfs", "disabled", "node", "bridge"} {
		name := "PROXMOX_VE_TEST_" + strings.ToUpper(role)
		if v := os.Getenv(name); v != "" {
			roles["{"+role+"}"] = v
		}
		if v := os.Getenv(name + "_PATH"); v != "" {
			roles["{"+role+".path}"], roles["{"+role+".pool}"] = v, v
		}
	}
	token, _, _ := strings.Cut(os.Getenv("PROXMOX_VE_API_TOKEN"), "=")
	_, id, _ := strings.Cut(token, "!")
	roles["{token}"], roles["{tokenid}"] = token, id
	return roles
}

// conformanceCluster runs what can be run on the cluster of the environment.
func conformanceCluster(t *testing.T, c *conformance) {
	s := &conformer{roles: environmentRoles(), tasks: map[int]string{}, t: t, reads: os.Getenv("PROXMOX_VE_TEST_CONFORMANCE") != conformanceWrites}
	token := os.Getenv("PROXMOX_VE_API_TOKEN")
	if s.roles["{node}"] == "" || !strings.HasPrefix(token, "root@pam!") {
		t.Skip("the conformance suite needs PROXMOX_VE_TEST_NODE and a token of root@pam in PROXMOX_VE_API_TOKEN, as the recorded one was")
	}
	first, last, err := lab.VMIDRange(os.Getenv("PROXMOX_VE_TEST_VMID_RANGE"))
	if err != nil {
		t.Fatal(err)
	}
	if last-first < tableVMIDs {
		t.Fatalf("the range %d-%d is too small for %d VMIDs", first, last, tableVMIDs)
	}
	s.offset = first - 100
	insecure, _ := strconv.ParseBool(os.Getenv("PROXMOX_VE_INSECURE"))
	var dialer net.Dialer
	s.client = newPlainClient(os.Getenv("PROXMOX_VE_ENDPOINT"), []byte(os.Getenv("PROXMOX_VE_CA_CERTIFICATE")), insecure, dialer.DialContext)
	t.Cleanup(s.client.close)
	const noSecret = "00000000-0000-0000-0000-000000000000"
	s.client.secrets = map[string]string{"token": token, "wrong secret": s.roles["{token}"] + "=" + noSecret,
		"unknown user": "nobody@pve!tf=" + noSecret, "unknown token": "root@pam!none-such=" + noSecret, "malformed token": "nonsense"}
	if s.client.password = os.Getenv("PROXMOX_VE_PASSWORD"); s.client.password != "" && os.Getenv("PROXMOX_VE_USERNAME") == "root@pam" {
		s.client.user = "root@pam"
		if err := s.client.login(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if left := s.ownObjects(); len(left) > 0 {
		t.Fatalf("the test range is not empty: %s", strings.Join(left, ", "))
	}
	for _, table := range []callTable{firstCalls(), secondCalls()} {
		s.tasks = map[int]string{}
		t.Run(table.name, func(t *testing.T) { conformanceCalls(t, c, s, table) })
		s.t = t
		s.sweepOwn()
	}
	t.Run("values", func(t *testing.T) {
		s.t = t
		why := "it changes something, and PROXMOX_VE_TEST_CONFORMANCE is not " + conformanceWrites
		if !s.reads {
			why = s.create800()
		}
		if why != "" {
			countOf(c.tables, "values").notRun = len(conformanceTable[valueRow](t, "values.jsonl"))
			t.Skip(why)
		}
		conformanceValues(t, c, s)
	})
	s.t = t
	s.sweepOwn()
	if left := s.ownObjects(); len(left) > 0 {
		t.Errorf("left on the cluster: %s", strings.Join(left, ", "))
	}
	countOf(c.tables, "running").notRun = len(conformanceTable[valueRow](t, "running.jsonl"))
	countOf(c.tables, "privileges").notRun = len(conformanceTable[privilegeRow](t, "privileges.jsonl"))
	c.report(t, "its own", true)
}

// list asks for a list as the token.
func (s *conformer) list(path string, params map[string]string) []map[string]any {
	a, err := s.client.do(s.t.Context(), "token", "GET", s.named(path), params)
	if err != nil || a.status != 200 {
		s.t.Fatalf("GET %s: %d %s %v", path, a.status, a.reason, err)
	}
	var out []map[string]any
	items, _ := a.data.([]any)
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// own tells an object of the test range.
func (s *conformer) own(item map[string]any) (int, bool) {
	id, err := strconv.Atoi(fmt.Sprint(item["vmid"]))
	if n, ok := item["vmid"].(float64); ok {
		id, err = int(n), nil
	}
	return id, err == nil && id >= 100+s.offset && id < 100+s.offset+tableVMIDs
}

// ownStorages are the storages that guests of the tables lie on.
func (s *conformer) ownStorages() []string {
	var out []string
	for _, role := range []string{"{dir}", "{dir2}", "{dir3}", "{zfs}", "{lvmthin}", "{lvm}", "{btrfs}"} {
		if name := s.roles[role]; name != "" {
			out = append(out, name)
		}
	}
	return out
}

// ownObjects lists the guests and volumes of the test range.
func (s *conformer) ownObjects() []string {
	var out []string
	for _, item := range s.list("/cluster/resources", map[string]string{"type": "vm"}) {
		if id, ok := s.own(item); ok {
			out = append(out, fmt.Sprintf("VM %d", id))
		}
	}
	for _, storage := range s.ownStorages() {
		for _, item := range s.list("/nodes/{node}/storage/"+storage+"/content", nil) {
			if _, ok := s.own(item); ok {
				out = append(out, fmt.Sprint(item["volid"]))
			}
		}
	}
	return out
}

// sweepOwn removes the rows' leftovers in the test range, which was empty before.
func (s *conformer) sweepOwn() {
	send := func(method, path string, params map[string]string) {
		a, err := s.client.do(s.t.Context(), "token", method, path, params)
		if err != nil {
			s.t.Fatal(err)
		}
		if upid, ok := a.data.(string); ok && strings.HasPrefix(upid, "UPID:") {
			s.tasks[-1] = upid
			s.taskDiff(callRow{N: -1})
		}
	}
	if s.reads { // and has made nothing
		return
	}
	guests := s.list("/nodes/{node}/qemu", nil)
	for _, template := range []bool{false, true} { // clones before their templates
		for _, g := range guests {
			id, ok := s.own(g)
			if !ok || (fmt.Sprint(g["template"]) == "1") != template {
				continue
			}
			base := s.named("/nodes/{node}/qemu/") + strconv.Itoa(id)
			send("POST", base+"/status/stop", nil)
			send("PUT", base+"/config", map[string]string{"protection": "0"})
			send("DELETE", base, map[string]string{"purge": "1"})
		}
	}
	for _, storage := range s.ownStorages() {
		for _, item := range s.list("/nodes/{node}/storage/"+storage+"/content", nil) {
			if _, ok := s.own(item); ok {
				send("DELETE", s.named("/nodes/{node}/storage/"+storage+"/content/")+fmt.Sprint(item["volid"]), nil)
			}
		}
	}
}

// create800 makes the VM of the table of values by the API, or says why it cannot.
func (s *conformer) create800() string {
	if s.roles["{zfs}"] == "" || s.roles["{dir2}"] == "" || s.roles["{bridge}"] == "" {
		return "the VM of the values needs the roles zfs, dir2 and bridge"
	}
	zfs := s.roles["{zfs}"] + ":1"
	a, err := s.client.do(s.t.Context(), "token", "POST", s.named("/nodes/{node}/qemu"), map[string]string{
		"vmid": strconv.Itoa(800 + s.offset), "name": "norm", "memory": "512", "boot": "order=ide1;net0", "ide1": zfs, "sata1": zfs,
		"scsi0": zfs, "scsi1": zfs, "virtio1": s.roles["{dir2}"] + ":1,format=qcow2", "net0": "virtio=BC:24:11:29:17:CE,bridge=" + s.roles["{bridge}"],
	})
	upid, ok := a.data.(string)
	if err != nil || !ok {
		return fmt.Sprintf("create the VM of the values: %d %s %v", a.status, a.reason, err)
	}
	s.tasks[-1] = upid
	s.taskDiff(callRow{N: -1})
	return ""
}

// restore800 undoes a row.
func (s *conformer) restore800(before map[string]any) {
	after, params := s.config800(), map[string]string{}
	var gone []string
	for _, k := range slices.Sorted(maps.Keys(after)) {
		if _, had := before[k]; !had && !strings.HasPrefix(k, "unused") {
			gone = append(gone, k)
		}
	}
	for k, v := range before {
		if k != "digest" && k != "meta" && compactJSON(after[k]) != compactJSON(v) {
			params[k] = fmt.Sprint(v)
		}
	}
	as := "token"
	if s.client.ticket != "" {
		as = "root"
	}
	changes := []map[string]string{}
	if len(gone) > 0 {
		changes = append(changes, map[string]string{"delete": strings.Join(gone, ",")})
	}
	if len(params) > 0 {
		changes = append(changes, params)
	}
	for _, change := range changes {
		if a, err := s.client.do(s.t.Context(), as, "PUT", s.named(pathOf800+"/config"), change); err != nil || a.status != 200 {
			s.t.Logf("undo %v: %d %s %v", change, a.status, a.reason, err)
		}
	}
}

// TestConformanceOnACluster takes the way to a real cluster, which a simulated one on the loopback interface stands for: once as it is
// by default, when nothing is sent that could change something, and once with all that can be asked.
func TestConformanceOnACluster(t *testing.T) {
	if rig.OnRealCluster() {
		t.Skip("TestConformance does it")
	}
	for mode, want := range map[string]struct{ shown, notRun int }{"": {25, 1700}, conformanceWrites: {700, 400}} {
		t.Run("mode "+mode, func(t *testing.T) {
			sim, err := pvesim.New(pvesim.Options{World: conformanceWorld(), RealNetwork: true})
			if err != nil {
				t.Fatal(err)
			}
			defer sim.Close()
			for name, value := range map[string]string{
				"ENDPOINT": sim.Endpoint(), "CA_CERTIFICATE": sim.CAPEM(), "USERNAME": "root@pam", "PASSWORD": "simulated",
				"API_TOKEN": sim.Credentials().RootToken, "TEST_NODE": "pve1", "TEST_BRIDGE": "vmbr0", "TEST_FILES": "1", "TEST_DIR": "local",
				"TEST_DIR_PATH": "/var/lib/vz", "TEST_DIR2": "local2", "TEST_DIR2_PATH": "/var/lib/vz2", "TEST_ZFS": "local-zfs", "TEST_ZFS_PATH": "rpool/data",
				"TEST_DIR3": "nosnip", "TEST_DISABLED": "disabled1", "TEST_DISABLED_PATH": "/var/lib/vz4", "TEST_LVMTHIN": "local-lvm", "TEST_CONFORMANCE": mode,
			} {
				t.Setenv("PROXMOX_VE_"+name, value)
			}
			before := sim.Snapshot()
			c := newConformance(t)
			conformanceCluster(t, c)
			shown, notRun := 0, 0
			for _, a := range c.tables {
				shown, notRun = shown+a.shown, notRun+a.notRun
			}
			if shown < want.shown || notRun < want.notRun {
				t.Errorf("%d rows ran and %d did not", shown, notRun)
			}
			for _, op := range sim.Ops() {
				if mode == "" && op.Method != http.MethodGet && op.Path != "/access/ticket" {
					t.Errorf("by default it sent %s %s", op.Method, op.Path)
				}
			}
			if changed := rig.SnapshotDiff(before, sim.Snapshot()); mode == "" && len(changed) > 0 {
				t.Errorf("by default it changed %v", changed)
			}
		})
	}
}
