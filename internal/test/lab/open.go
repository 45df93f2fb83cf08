package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Open looks at the cluster and makes the objects that all cases share. It refuses to start where the range of VMIDs is not empty: what is in
// it at the end is taken for the tests' own, and removed.
func Open(ctx context.Context, o Options) (*Cluster, error) {
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	client, err := newClient(o)
	if err != nil {
		return nil, err
	}
	c := &Cluster{client: client, names: map[string]string{}, lacks: map[Need]string{}}
	if err := c.look(ctx, o); err != nil {
		return nil, err
	}
	own, err := c.Own(ctx)
	if err != nil {
		return nil, fmt.Errorf("look whether the test range is empty: %w", err)
	}
	if len(own) > 0 {
		return nil, fmt.Errorf("the test range %d-%d is not empty, and the tests would remove what is in it: %s. "+
			"Remove it, or set PROXMOX_VE_TEST_VMID_RANGE to another range", c.First, c.Last, strings.Join(own, ", "))
	}
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// look determines the equipment of the cluster.
func (c *Cluster) look(ctx context.Context, o Options) error {
	env := func(name, otherwise string) string {
		if v := o.Getenv("PROXMOX_VE_TEST_" + name); v != "" {
			return v
		}
		return otherwise
	}
	var err error
	if c.First, c.Last, err = VMIDRange(env("VMID_RANGE", "")); err != nil {
		return err
	}
	if err := c.lookAtNode(ctx, env("NODE", "")); err != nil {
		return err
	}
	c.pool = fmt.Sprintf("terraform-acc-%d", c.First)
	for name, value := range map[string]string{"bridge": env("BRIDGE", "vmbr0"), "pool": c.pool, "mapping": env("MAPPING", ""),
		"esxi": env("ESXI", ""), "appliance": env("OVA", ""), "backup": env("BACKUP", ""),
		"storage": env("STORAGE", "local-zfs"), "second": env("STORAGE2", "local-lvm"), "dir": env("DIR", "local"), "lvm": env("LVM", ""),
		"iso": env("ISO", ""), "import": env("IMPORT", ""), "url": env("URL", ""), "template": env("TEMPLATE", "")} {
		c.names[name] = value
	}
	c.lack(Guest, c.names["template"] == "", "PROXMOX_VE_TEST_TEMPLATE names none")
	c.lack(PCIMapping, c.names["mapping"] == "", "PROXMOX_VE_TEST_MAPPING names none")
	c.lack(ESXi, c.names["esxi"] == "", "PROXMOX_VE_TEST_ESXI names none")
	c.lack(Appliance, c.names["appliance"] == "", "PROXMOX_VE_TEST_OVA names none")
	c.lack(Backup, c.names["backup"] == "", "PROXMOX_VE_TEST_BACKUP names none")
	c.lack(ImageURL, c.names["url"] == "", "PROXMOX_VE_TEST_URL names none")
	c.lack(HA, env("HA", "") == "", "PROXMOX_VE_TEST_HA is not set")
	c.lack(RootPassword, !c.client.hasRoot(), "PROXMOX_VE_USERNAME and _PASSWORD do not give it")
	c.lack(Functions, o.NoFunctions != "", o.NoFunctions)
	c.lack(Program, !o.WithProgram, "the cases run over the plugin protocol")
	return c.lookAtStorages(ctx)
}

func (c *Cluster) lack(need Need, lacking bool, why string) {
	if lacking {
		c.lacks[need] = why
	}
}

// lookAtNode takes the node that is configured, else the first that is online.
func (c *Cluster) lookAtNode(ctx context.Context, wanted string) error {
	online, err := c.online(ctx)
	if err != nil {
		return err
	}
	switch {
	case wanted == "" && len(online) > 0:
		wanted = online[0]
	case !slices.Contains(online, wanted):
		return fmt.Errorf("PROXMOX_VE_TEST_NODE: %q is not one of the nodes that are online: %s", wanted, strings.Join(online, ", "))
	}
	c.Node, c.names["node"] = wanted, wanted
	return nil
}

// lookAtStorages finds the storages, and an ISO and a disk image where none is configured.
func (c *Cluster) lookAtStorages(ctx context.Context) error {
	rows, err := c.client.list(ctx, "/nodes/"+c.Node+"/storage", map[string]string{"enabled": "1"})
	if err != nil {
		return err
	}
	storages := map[string]map[string]any{}
	for _, row := range rows {
		storages[text(row["storage"])] = row
	}
	for _, content := range []string{"iso", "import"} {
		if c.names[content] == "" {
			if c.names[content], err = c.firstFile(ctx, rows, content); err != nil {
				return err
			}
		}
	}
	c.names["import storage"], _, _ = strings.Cut(c.names["import"], ":")
	has := func(name string, types ...string) bool {
		row := storages[c.names[name]]
		return row != nil && holds(row, "images") && (len(types) == 0 || slices.Contains(types, text(row["type"])))
	}
	if !has("storage") {
		return fmt.Errorf("PROXMOX_VE_TEST_STORAGE: node %s has no storage %q that holds images", c.Node, c.names["storage"])
	}
	noStorage := func(variable, name string) string {
		return fmt.Sprintf("PROXMOX_VE_TEST_%s: node %s has no such storage %q", variable, c.Node, c.names[name])
	}
	c.lack(SecondStorage, !has("second") || c.names["second"] == c.names["storage"], noStorage("STORAGE2", "second"))
	c.lack(Directory, !has("dir", "dir", "nfs", "cifs"), noStorage("DIR", "dir"))
	c.lack(ThickLVM, !has("lvm", "lvm"), noStorage("LVM", "lvm"))
	c.lack(LinkedClones, has("storage", "lvm"), "PROXMOX_VE_TEST_STORAGE is of type lvm")
	c.lack(ISO, c.names["iso"] == "", "no storage has one that this identity sees; PROXMOX_VE_TEST_ISO names one")
	c.lack(ImportImage, c.names["import"] == "", "no storage has one that this identity sees; PROXMOX_VE_TEST_IMPORT names one")
	if row := storages[c.names["lvm"]]; row != nil {
		free, err := strconv.ParseFloat(text(row["avail"]), 64)
		if err != nil {
			return fmt.Errorf("space on %s: %w", c.names["lvm"], err)
		}
		c.names["more than half"] = fmt.Sprintf("%.0fG", free/(1<<30)*0.6)
	}
	return nil
}

// firstFile is a file of a kind of content on any of the storages; "" where there is none. An appliance has a disk in it, and is none.
func (c *Cluster) firstFile(ctx context.Context, storages []map[string]any, content string) (string, error) {
	for _, row := range storages {
		if !holds(row, content) {
			continue
		}
		files, err := c.client.list(ctx, "/nodes/"+c.Node+"/storage/"+text(row["storage"])+"/content", map[string]string{"content": content})
		if err != nil {
			return "", err
		}
		for _, file := range files {
			if slices.Contains([]string{"iso", "qcow2", "raw", "vmdk"}, text(file["format"])) {
				return text(file["volid"]), nil
			}
		}
	}
	return "", nil
}

// prepare makes the pool, which also keeps a second run out of the range, and a template where there is none to use: a VM with
// an empty disk and a cloud-init drive.
func (c *Cluster) prepare(ctx context.Context) error {
	if err := c.client.do(ctx, false, http.MethodPost, "/pools", map[string]string{"poolid": c.pool,
		"comment": "acceptance tests"}); err != nil {
		return fmt.Errorf("make the pool of the tests (Pool.Allocate): %w", err)
	}
	if c.names["template"] != "" {
		return nil
	}
	c.made = c.Last
	c.names["template"] = strconv.Itoa(c.made)
	err := c.client.do(ctx, false, http.MethodPost, "/nodes/"+c.Node+"/qemu", map[string]string{
		"vmid": c.names["template"], "name": "acc-template", "memory": "512", "ostype": "l26", "scsihw": "virtio-scsi-single",
		"scsi0": c.names["storage"] + ":1", "ide2": c.names["storage"] + ":cloudinit", "net0": "virtio,bridge=" + c.names["bridge"],
		"boot": "order=scsi0",
	})
	if err == nil {
		err = c.client.do(ctx, false, http.MethodPost, c.guestPath(c.Node, c.made)+"/template", nil)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make the template of the tests: %w", err), c.Close(ctx))
	}
	return nil
}

// Close removes the objects that Open made. It names other objects in the range and leaves them alone.
func (c *Cluster) Close(ctx context.Context) error {
	leaks, err := c.Leaks(ctx)
	if len(leaks) > 0 {
		err = errors.Join(err, errors.New("left on the cluster: "+strings.Join(leaks, ", ")))
	}
	if c.made != 0 {
		err = errors.Join(err, c.remove(ctx, c.Node, c.made))
	}
	err = errors.Join(err, c.client.do(ctx, false, http.MethodDelete, "/pools/"+c.pool, nil))
	c.client.http.CloseIdleConnections()
	return err
}
