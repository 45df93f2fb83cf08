package capture_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/capture"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// planted are forms in which people write secrets into texts; %s is the secret.
func planted() []string {
	return []string{"password=%s", "Password: %s", "**Password:** %s", "<b>Password:</b> %s", `{"password":"%s"}`, `password = "first %s`,
		"| password | %s |", "https://admin:%s@host", "Authorization: Bearer %s", "-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----",
		"pw %s", "Passwort: %s", "root/%s", "PIN is %s", "token: %s", "`secret` is `%s`", "api_key=%s", "mysql -p%s", "export PGPASS=%s",
		"-object secret,id=s0,data=%s", `-fw_cfg name=opt/com.coreos/config,string={"passwordHash":"%s"}`, "credentials\n  user: x\n  value: %s"}
}

// TestPlantedSecretsStayInTheCluster: whatever users write freely stays where it is, in each place where they can, whether
// names are masked or not.
func TestPlantedSecretsStayInTheCluster(t *testing.T) {
	world := full()
	var secrets []string
	secret := func() string {
		secrets = append(secrets, fmt.Sprintf("LEAK%04d", len(secrets)))
		return secrets[len(secrets)-1]
	}
	all := func() string {
		var text []string
		for _, form := range planted() {
			text = append(text, fmt.Sprintf(form, secret()))
		}
		return strings.Join(text, "\n")
	}
	g := world.Guests[8000]
	g.Config["description"], g.Config["args"] = all(), strings.ReplaceAll(all(), "\n", " ")
	g.Config["smbios1"] += ",base64=1,serial=" + base64.StdEncoding.EncodeToString([]byte(all()))
	serial := g.Config["smbios1"][strings.Index(g.Config["smbios1"], "serial=")+7:]
	g.Pending["description"] = all()
	g.Snaps["before"]["description"] = all()
	for vmid, other := range world.Guests {
		if other.Type == "lxc" {
			world.Guests[vmid].Config["description"], world.Guests[vmid].Config["env"] = all(), "PASS="+secret()
		}
	}
	world.Pools["web"].Comment, world.Pools["web/inner"].Comment = all(), all()
	world.HA["vm:8000"].Options["comment"] = all()
	f := world.Firewall[8000]
	f.Rules[0]["comment"], f.Aliases["office"]["comment"] = all(), all()
	f.IPSets["friends"].Comment, f.IPSets["friends"].Entries[0]["comment"] = all(), all()
	sim, config := start(t, pvesim.Options{World: world})
	for _, mask := range [][]string{nil, {"all"}} {
		config.Mask, config.Texts = mask, false
		taken, err := capture.Run(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		text := document(t, taken)
		for _, leak := range append(secrets, "LEAK", serial) {
			if strings.Contains(text, leak) {
				t.Errorf("mask %v: the file holds %s", mask, leak)
			}
		}
		if !strings.Contains(text, "uuid=") {
			t.Error("the uuids were left out, too")
		}
		if _, err := state.Read([]byte(text)); err != nil {
			t.Errorf("mask %v: the file is no world: %v", mask, err)
		}
	}
	config.Mask, config.Texts = nil, true
	taken, err := capture.Run(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if text := document(t, taken); !strings.Contains(text, "credentials") || strings.Contains(text, secrets[0]) {
		t.Error("asked for, the texts do not come along, or the plainest secret does")
	}
	sim.Close()
}
