package pve

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Every write goes out as the one request that it should be.
func TestWrites(t *testing.T) {
	const task = `"` + createUPID + `"`
	upid := func(_ UPID, err error) error { return err }
	tests := map[string]struct {
		answer string
		call   func(context.Context, *Client) error
		want   string
	}{
		"create": {task, func(ctx context.Context, c *Client) error {
			return upid(c.Node("pve1").CreateVM(ctx, Params{"vmid": "100", "boot": "order=scsi0;net0", "net0": "virtio,bridge=vmbr0"}))
		}, "POST /nodes/pve1/qemu boot=order%3Dscsi0%3Bnet0&net0=virtio%2Cbridge%3Dvmbr0&vmid=100"},
		"clone": {task, func(ctx context.Context, c *Client) error {
			return upid(c.QEMU("pve1", 9000).Clone(ctx, Params{"newid": "100"}))
		}, "POST /nodes/pve1/qemu/9000/clone newid=100"},
		"delete": {task, func(ctx context.Context, c *Client) error {
			return upid(c.QEMU("pve1", 100).Destroy(ctx, true))
		}, "DELETE /nodes/pve1/qemu/100 purge=1"},
		"delete plainly": {task, func(ctx context.Context, c *Client) error {
			return upid(c.QEMU("pve1", 100).Destroy(ctx, false))
		}, "DELETE /nodes/pve1/qemu/100 "},
		"resize": {task, func(ctx context.Context, c *Client) error {
			return upid(c.QEMU("pve1", 100).ResizeDisk(ctx, "scsi0", "+2G", ""))
		}, "PUT /nodes/pve1/qemu/100/resize disk=scsi0&size=%2B2G"},
		"move disk": {task, func(ctx context.Context, c *Client) error {
			return upid(c.QEMU("pve1", 100).MoveDiskAndFree(ctx, Params{"disk": "scsi0", "storage": "lvm"}))
		}, "POST /nodes/pve1/qemu/100/move_disk delete=1&disk=scsi0&storage=lvm"},
		"delete detached volumes": {task, func(ctx context.Context, c *Client) error {
			return upid(c.QEMU("pve1", 100).DeleteUnused(ctx, []string{"unused0", "unused3"}, "abc"))
		}, "POST /nodes/pve1/qemu/100/config delete=unused0%2Cunused3&digest=abc"},
		"unlock": {"null", func(ctx context.Context, c *Client) error {
			return c.QEMU("pve1", 100).RemoveLock(ctx, "abc", "")
		}, "PUT /nodes/pve1/qemu/100/config delete=lock&digest=abc&skiplock=1"},
		"shut down or stop": {task, func(ctx context.Context, c *Client) error {
			return upid(c.QEMU("pve1", 100).ShutdownOrStop(ctx, 20*time.Second))
		}, "POST /nodes/pve1/qemu/100/status/shutdown forceStop=1&timeout=20"},
		"template": {task, func(ctx context.Context, c *Client) error {
			return upid(c.QEMU("pve1", 100).ConvertToTemplate(ctx))
		}, "POST /nodes/pve1/qemu/100/template "},
		"migrate": {task, func(ctx context.Context, c *Client) error {
			return upid(c.QEMU("pve1", 100).Migrate(ctx, Params{"target": "pve2"}))
		}, "POST /nodes/pve1/qemu/100/migrate target=pve2"},
		"cloud-init": {"null", func(ctx context.Context, c *Client) error {
			return c.QEMU("pve1", 100).RegenerateCloudInit(ctx)
		}, "PUT /nodes/pve1/qemu/100/cloudinit "},
		"update": {"null", func(ctx context.Context, c *Client) error {
			return c.QEMU("pve1", 100).UpdateConfig(ctx, Params{"delete": "cores", "name": "x"})
		}, "PUT /nodes/pve1/qemu/100/config delete=cores&name=x"},
		"update as a task": {task, func(ctx context.Context, c *Client) error {
			return upid(c.QEMU("pve1", 100).UpdateConfigTask(ctx, Params{"scsi1": "local:1"}))
		}, "POST /nodes/pve1/qemu/100/config scsi1=local%3A1"},
		"start": {task, func(ctx context.Context, c *Client) error {
			return upid(c.QEMU("pve1", 100).Start(ctx, nil))
		}, "POST /nodes/pve1/qemu/100/status/start "},
		"stop": {task, func(ctx context.Context, c *Client) error {
			return upid(c.QEMU("pve1", 100).HardStop(ctx, Params{"skiplock": "1"}))
		}, "POST /nodes/pve1/qemu/100/status/stop skiplock=1"},
		"shutdown": {task, func(ctx context.Context, c *Client) error {
			return upid(c.QEMU("pve1", 100).Shutdown(ctx, Params{"timeout": "20"}))
		}, "POST /nodes/pve1/qemu/100/status/shutdown timeout=20"},
		"reboot": {task, func(ctx context.Context, c *Client) error {
			return upid(c.QEMU("pve1", 100).Reboot(ctx, nil))
		}, "POST /nodes/pve1/qemu/100/status/reboot "},
		"delete volume": {"null", func(ctx context.Context, c *Client) error {
			return upid(c.Volume("pve1", "local2:200/vm-200-disk-7.qcow2").Destroy(ctx))
		}, "DELETE /nodes/pve1/storage/local2/content/local2:200/vm-200-disk-7.qcow2 delay=5"},
		"stop task": {"null", func(ctx context.Context, c *Client) error {
			return c.Tasks().Stop(ctx, taskUPID)
		}, "DELETE /nodes/pve1/tasks/" + string(taskUPID) + " "},
		"firewall options": {"null", func(ctx context.Context, c *Client) error {
			return c.Firewall("pve1", 100).SetOptions(ctx, Params{"enable": "1", "delete": "dhcp", "digest": "d1"})
		}, "PUT /nodes/pve1/qemu/100/firewall/options delete=dhcp&digest=d1&enable=1"},
		"add a firewall rule": {"null", func(ctx context.Context, c *Client) error {
			return c.Firewall("pve1", 100).AddRule(ctx, Params{"type": "in", "action": "ACCEPT"})
		}, "POST /nodes/pve1/qemu/100/firewall/rules action=ACCEPT&type=in"},
		"change a firewall rule": {"null", func(ctx context.Context, c *Client) error {
			return c.Firewall("pve1", 100).UpdateRule(ctx, 2, Params{"delete": "icmp-type"})
		}, "PUT /nodes/pve1/qemu/100/firewall/rules/2 delete=icmp-type"},
		"delete a firewall rule": {"null", func(ctx context.Context, c *Client) error {
			return c.Firewall("pve1", 100).DeleteRule(ctx, 3, "d2")
		}, "DELETE /nodes/pve1/qemu/100/firewall/rules/3 digest=d2"},
		"add to pool": {"null", func(ctx context.Context, c *Client) error {
			return c.Pools().AddMember(ctx, "a/b", 100)
		}, "PUT /pools poolid=a%2Fb&vms=100"},
		"remove from pool": {"null", func(ctx context.Context, c *Client) error {
			return c.Pools().RemoveMember(ctx, "web", 100)
		}, "PUT /pools delete=1&poolid=web&vms=100"},
		"create ha": {"null", func(ctx context.Context, c *Client) error {
			return c.HA().Create(ctx, 100, Params{"state": "started"})
		}, "POST /cluster/ha/resources sid=vm%3A100&state=started"},
		"update ha": {"null", func(ctx context.Context, c *Client) error {
			return c.HA().Update(ctx, 100, Params{"state": "stopped"})
		}, "PUT /cluster/ha/resources/vm:100 state=stopped"},
		"delete ha": {"null", func(ctx context.Context, c *Client) error {
			return c.HA().RemoveGuest(ctx, 100)
		}, "DELETE /cluster/ha/resources/vm:100 purge=0"},
		"create an HA rule": {"null", func(ctx context.Context, c *Client) error {
			return c.HA().CreateRule(ctx, HARule{ID: "r1", Type: "node-affinity", Resources: []string{"vm:100"}, Nodes: map[string]int64{"b": 2, "a": 0}, Strict: true})
		}, "POST /cluster/ha/rules nodes=a%3A0%2Cb%3A2&resources=vm%3A100&rule=r1&strict=1&type=node-affinity"},
		"update an HA rule": {"null", func(ctx context.Context, c *Client) error {
			return c.HA().UpdateRule(ctx, HARule{ID: "r1", Type: "resource-affinity", Resources: []string{"ct:101", "vm:100"}, Affinity: "negative", Comment: "c"}, "d3")
		}, "PUT /cluster/ha/rules/r1 affinity=negative&comment=c&delete=disable&digest=d3&resources=ct%3A101%2Cvm%3A100&type=resource-affinity"},
		"delete an HA rule": {"null", func(ctx context.Context, c *Client) error { return c.HA().RemoveRule(ctx, "r1") }, "DELETE /cluster/ha/rules/r1 "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, constant(tt.answer))
			if err := tt.call(t.Context(), s.client(t)); err != nil {
				t.Fatal(err)
			}
			if got := s.requests(); len(got) != 1 || got[0].String() != tt.want {
				t.Errorf("sent  %v\nwanted %s", got, tt.want)
			}
		})
	}
}

// A success that does not say what it should is no success.
func TestAnswersThatCannotBeRead(t *testing.T) {
	for _, body := range []string{`null`, `"done"`, `{"a":1}`, `[]`} {
		s := newServer(t, constant(body))
		if upid, err := s.client(t).Node("pve1").CreateVM(t.Context(), Params{"vmid": "100"}); !IsKind(err, Ambiguous) || upid != "" || len(s.requests()) != 1 {
			t.Errorf("create answered with %s: %q, %v", body, upid, err)
		}
	}
	html := newServer(t, func(w http.ResponseWriter, _ seen, _ int) { reply(w, 200, "OK", "<html>a login page</html>") })
	if err := html.client(t).QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"name": "x"}); !IsKind(err, Ambiguous) {
		t.Errorf("write: %v", err)
	}
	if _, err := html.client(t).Cluster().Resources(t.Context()); err == nil || KindOf(err) != Unknown {
		t.Errorf("read: %v", err)
	}
	null := newServer(t, constant(`null`))
	if list, err := null.client(t).Storage("pve1", "local").Content(t.Context(), "images", 100); err == nil {
		t.Errorf("a listing without data is %v", list)
	}
}

// Before http-server 5.2.0 the reason phrase is all there is.
func TestReasonPhraseIsTheMessage(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ seen, _ int) {
		reply(w, 500, "Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist", `{"data":null}`)
	})
	_, err := s.client(t).QEMU("pve1", 999).Config(t.Context())
	want := "read the config of VM 999 on node pve1: Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist"
	if !IsKind(err, NotFound) || err.Error() != want {
		t.Errorf("%s: %v", KindOf(err), err)
	}
	for _, reason := range []string{"", "Internal Server Error"} {
		dropped := newServer(t, func(w http.ResponseWriter, _ seen, _ int) { reply(w, 500, reason, `{"data":null}`) })
		_, err := dropped.client(t).QEMU("pve1", 999).Config(t.Context())
		if err == nil || !strings.Contains(err.Error(), "has no text of PVE") || !IsKind(err, Unknown) {
			t.Errorf("a proxy that drops the reason phrase: %v", err)
		}
	}
	for body, reason := range map[string]string{`{"data":null,"message":"Internal Server Error"}`: "Internal Server Error",
		`{"data":null,"errors":{"memory":"format error"}}`: "Bad Request", `{"data":null}`: "no such VM"} {
		told := newServer(t, func(w http.ResponseWriter, _ seen, _ int) { reply(w, 500, reason, body) })
		if _, err := told.client(t).QEMU("pve1", 999).Config(t.Context()); strings.Contains(fmt.Sprint(err), "has no text") {
			t.Errorf("%s, %s: %v", body, reason, err)
		}
	}
	missing := newServer(t, func(w http.ResponseWriter, _ seen, _ int) { reply(w, 404, "Not Found", "") })
	if _, err := missing.client(t).QEMU("pve1", 999).Config(t.Context()); KindOf(err) != Unavailable {
		t.Errorf("a 404, which PVE never sends, is %s: %v", KindOf(err), err)
	}
}

func TestNamesThatWouldLeadElsewhere(t *testing.T) {
	s := newServer(t, constant(`{}`))
	c := s.client(t)
	_, err1 := c.QEMU("", 100).Config(t.Context())
	_, err2 := c.Node("../..").Status(t.Context())
	_, err3 := c.Volume("pve1", "vm-100-disk-0").Destroy(t.Context())
	_, err4 := c.Volume("pve1", "local:../../x").Destroy(t.Context())
	for i, err := range []error{err1, err2, err3, err4} {
		if !IsKind(err, Invalid) {
			t.Errorf("%d: %v", i+1, err)
		}
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestConfigs(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		if s.path == "/nodes/pve1/qemu/303/config" {
			data(w, `{"digest":"6797","memory":"64","cores":2,"cpulimit":1.5e0,"boot":" ","kvm":0,"tablet":true,"nothing":null,"odd":{"a":1}}`)
			return
		}
		data(w, `[{"value":"64","pending":"96","key":"memory"},{"key":"cores","pending":2},{"key":"digest","value":"f004"},
			{"key":"scsi0","value":"local-zfs:vm-303-disk-0,size=2G","delete":1},{"key":"unused0","value":"local:x","delete":"2"},{"key":"kvm","value":0}]`)
	})
	c := s.client(t)
	cfg, err := c.QEMU("pve1", 303).Config(t.Context())
	want := GuestConfig{Digest: "6797", Values: map[string]string{
		"memory": "64", "cores": "2", "cpulimit": "1.5", "boot": " ", "kvm": "0", "tablet": "1", "odd": `{"a":1}`,
	}}
	if err != nil || !cmp.Equal(cfg, want) || s.requests()[0].form.Get("current") != "1" {
		t.Errorf("%v %s", err, cmp.Diff(want, cfg))
	}
	pending, err := c.QEMU("pve1", 303).Pending(t.Context())
	if err != nil || pending.Digest != "f004" || len(pending.Entries) != 5 {
		t.Fatalf("%+v, %v", pending, err)
	}
	if diff := cmp.Diff(map[string]string{"memory": "64", "kvm": "0", "scsi0": "local-zfs:vm-303-disk-0,size=2G", "unused0": "local:x"}, pending.Current()); diff != "" {
		t.Error("current", diff)
	}
	if diff := cmp.Diff(map[string]string{"memory": "96", "cores": "2", "kvm": "0"}, pending.Merged()); diff != "" {
		t.Error("merged", diff)
	}
	if diff := cmp.Diff([]string{"cores", "memory", "scsi0", "unused0"}, pending.Waiting()); diff != "" {
		t.Error("waiting", diff)
	}
	if pending.Entries[4].Delete != 2 {
		t.Errorf("forced deletion: %+v", pending.Entries[4])
	}
}

func TestGuestStatusAndAgent(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		if s.path == "/nodes/pve1/qemu/323/status/current" {
			data(w, `{"cpu":0,"maxmem":67108864,"clipboard":null,"agent":1,"uptime":"12","vmid":323,"tags":"b;a","qmpstatus":"paused","ha":{"managed":1,"state":"started"},"name":"ag","cpus":1.5,"status":"running","template":"","lock":"backup","pid":"77"}`)
			return
		}
		data(w, `{"result":[{"name":"lo","hardware-address":"00:00:00:00:00:00"},{"name":"eth0","hardware-address":"bc:24:11:00:00:23",
			"ip-addresses":[{"prefix":16,"ip-address":"10.99.2.75","ip-address-type":"ipv4"},{"prefix":"64","ip-address":"fe80::1","ip-address-type":"ipv6"}]}]}`)
	})
	c := s.client(t)
	got, err := c.QEMU("pve1", 323).Status(t.Context())
	want := GuestStatus{
		Status: "running", QMPStatus: "paused", Lock: "backup", Uptime: 12, PID: 77,
		HAManaged: true,
	}
	if err != nil || got != want || !got.IsRunning() {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
	nics, err := c.QEMU("pve1", 323).AgentInterfaces(t.Context())
	wantNICs := []AgentInterface{
		{Name: "lo", MAC: "00:00:00:00:00:00"},
		{Name: "eth0", MAC: "bc:24:11:00:00:23", Addresses: []AgentAddress{{"ipv4", "10.99.2.75", 16}, {"ipv6", "fe80::1", 64}}},
	}
	if err != nil || !cmp.Equal(nics, wantNICs) {
		t.Errorf("%v %s", err, cmp.Diff(wantNICs, nics))
	}
}

func TestNodesAndStorages(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		switch s.path {
		case "/nodes":
			data(w, `[{"uptime":3589,"level":"","status":"online","id":"node/pve1","node":"pve1","maxcpu":2,"cpu":0.0189,"maxmem":25276510208},{"node":"pve2","status":"offline"}]`)
		case "/nodes/pve1/status":
			data(w, `{"swap":{"free":0},"ksm":{"shared":0},"boot-info":{"mode":"efi","secureboot":1},"rootfs":{"avail":77392297984,"total":270553174016},"pveversion":"pve-manager/8.4.21/2606",
				"idle":0,"kversion":"Linux 6.8","cpuinfo":{"flags":"fpu vme","sockets":1,"cores":2,"mhz":"2300.000","user_hz":100,"cpus":4,"model":"Xeon","hvm":""},"current-kernel":{"sysname":"Linux","release":"6.8.12-9-pve"},
				"memory":{"used":1,"total":3,"free":2},"wait":0.25,"uptime":3594,"loadavg":["0.18","0.66",0.61]}`)
		case "/nodes/pve1/network":
			data(w, `[{"iface":"vmbr0","type":"bridge","active":1,"autostart":"1","cidr":"10.0.0.1/24","bridge_ports":"eno1","comments":"main\n","bridge_vlan_aware":1,"mtu":"9000"}]`)
		case "/nodes/pve1/storage":
			data(w, `[{"storage":"local","type":"dir","content":"iso,images,backup","enabled":1,"active":1,"shared":0,"total":10,"used":"3","avail":7},{"storage":"off","type":"nfs","content":"images","enabled":0,"active":0}]`)
		default:
			data(w, `[{"size":4194304,"volid":"local:200/vm-200-cloudinit.qcow2","format":"qcow2","content":"images","parent":null,"vmid":"200","ctime":1795182683,"used":12}]`)
		}
	})
	c := s.client(t)
	nodes, err := c.Cluster().Nodes(t.Context())
	if err != nil || len(nodes) != 2 || nodes[0].Uptime != 3589 || nodes[1] != (Node{Name: "pve2", Status: "offline"}) {
		t.Errorf("%+v, %v", nodes, err)
	}
	status, err := c.Node("pve1").Status(t.Context())
	want := NodeStatus{
		Uptime: 3594 * time.Second, Wait: 0.25, LoadAverage: []string{"0.18", "0.66", "0.61"}, KernelVersion: "Linux 6.8",
		Kernel: Kernel{SysName: "Linux", Release: "6.8.12-9-pve"}, BootMode: "efi", SecureBoot: true, PVEVersion: "pve-manager/8.4.21/2606",
		CPUInfo: CPUInfo{Model: "Xeon", Sockets: 1, Cores: 2, CPUs: 4, MHz: "2300.000", Flags: []string{"fpu", "vme"}, UserHz: 100},
		Memory:  Memory{Total: 3, Used: 1, Free: 2}, RootFS: Filesystem{Total: 270553174016, Available: 77392297984},
	}
	if err != nil || !cmp.Equal(status, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, status))
	}
	networks, err := c.Node("pve1").Networks(t.Context())
	if err != nil || len(networks) != 1 || networks[0] != (Network{"vmbr0", "bridge", true, true, true, "10.0.0.1/24", "eno1", "main", 9000}) {
		t.Errorf("%+v, %v", networks, err)
	}
	storages, err := c.Node("pve1").Storages(t.Context(), "images")
	if err != nil || len(storages) != 2 || !storages[0].Holds("images") || storages[0].Holds("import") || storages[0].Used != 3 || storages[1].Enabled {
		t.Errorf("%+v, %v", storages, err)
	}
	volumes, err := c.Storage("pve1", "local").Content(t.Context(), "images", 200)
	wantVolume := Volume{ID: "local:200/vm-200-cloudinit.qcow2", VMID: 200, Format: "qcow2", Content: "images", Size: 4194304, Used: 12, CreatedAt: time.Unix(1795182683, 0)}
	if err != nil || len(volumes) != 1 || volumes[0] != wantVolume {
		t.Errorf("%+v, %v", volumes, err)
	}
	all := s.requests()
	if got := all[len(all)-1].String(); got != "GET /nodes/pve1/storage/local/content content=images&vmid=200" {
		t.Errorf("asked %s", got)
	}
}

func TestPools(t *testing.T) {
	member := `{"vmid":303,"type":"qemu","node":"pve1","id":"qemu/303","status":"stopped"}`
	s := newServer(t, constant(`[{"poolid":"a/b","comment":"x","members":[`+member+`]}]`))
	pool, err := s.client(t).Pools().Get(t.Context(), "a/b")
	if err != nil || pool.ID != "a/b" || pool.Comment != "x" || !pool.Has(303) || pool.Has(304) {
		t.Errorf("%+v, %v", pool, err)
	}
	old := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		switch {
		case s.path == "/pools" && s.method == http.MethodGet:
			reply(w, 400, "Parameter verification failed.", `{"data":null,"errors":{"poolid":"property is not defined in schema and the schema does not allow additional properties"}}`)
		case s.path == "/pools":
			reply(w, 501, "Method 'PUT /pools' not implemented", "")
		case s.method == http.MethodGet:
			data(w, `{"comment":"x","members":[`+member+`]}`)
		default:
			data(w, `null`)
		}
	})
	c := old.client(t)
	if pool, err := c.Pools().Get(t.Context(), "web"); err != nil || !pool.Has(303) {
		t.Errorf("before 8.1: %+v, %v", pool, err)
	}
	if err := c.Pools().AddMember(t.Context(), "web", 303); err != nil {
		t.Error(err)
	}
	if got := old.requests()[3].String(); got != "PUT /pools/web vms=303" {
		t.Errorf("sent %s", got)
	}
	if err := c.Pools().AddMember(t.Context(), "a/b", 303); !IsKind(err, Unsupported) {
		t.Errorf("a nested pool before 8.1: %v", err)
	}
}

func TestPermissionsAndHA(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		if s.path == "/access/permissions" {
			data(w, `{"/vms":{"VM.Audit":1,"VM.Allocate":0}}`)
			return
		}
		die(w, "no such resource 'vm:303'")
	})
	c := s.client(t)
	got, err := c.Access().Permissions(t.Context(), "/vms")
	if diff := cmp.Diff(map[string]map[string]bool{"/vms": {"VM.Audit": true, "VM.Allocate": false}}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := c.HA().Resource(t.Context(), 303); !IsKind(err, NotFound) {
		t.Errorf("got %v", err)
	}
}

// TestWhatDestroysHasCallsOfItsOwn: a change of options that would destroy is not sent.
func TestWhatDestroysHasCallsOfItsOwn(t *testing.T) {
	s := newServer(t, constant(`null`))
	c := s.client(t)
	upid := func(_ UPID, err error) error { return err }
	for name, err := range map[string]error{
		"unused": c.QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"delete": "cores,unused0"}),
		"task":   upid(c.QEMU("pve1", 100).UpdateConfigTask(t.Context(), Params{"delete": "unused0"})),
		"lock":   c.QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"delete": "name; lock"}),
		"force":  upid(c.QEMU("pve1", 100).Shutdown(t.Context(), Params{"forceStop": "1"})),
		"slot":   upid(c.QEMU("pve1", 100).DeleteUnused(t.Context(), []string{"scsi0"}, "")),
	} {
		if !IsKind(err, Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := s.requests(); len(got) > 0 {
		t.Errorf("sent %v", got)
	}
}
