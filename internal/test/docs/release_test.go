package docs_test

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// releasePlatform is the one that the test runs on, as archives call it.
func releasePlatform() string { return runtime.GOOS + "_" + runtime.GOARCH }

// TestRelease installs the provider as a third party does: the archive of a release in a mirror, and terraform init; no registry and no
// override of a developer. Then the README's configuration and the demonstration's are applied and destroyed. The archive is that of the
// snapshot in dist/, else one that is made here by the same description.
func TestRelease(t *testing.T) {
	if os.Getenv("RELEASE_TEST") == "" {
		t.Skip("builds the provider as a release and runs a CLI: make release-test")
	}
	rig.WithoutEnvironment(t)
	rig.UseCLI(t)
	dir := t.TempDir()
	version, archive := snapshotArchive(t)
	if archive == "" {
		t.Log("dist/ has no snapshot: the archive is made here")
		version, archive = "0.0.1", makeArchive(t, dir, "0.0.1")
	}
	t.Logf("%s, installed with %s", filepath.Base(archive), os.Getenv("TF_ACC_TERRAFORM_PATH"))
	home := filepath.Join(dir, "home")
	installAsREADME(t, home, archive, version)
	mirror := filepath.Join(home, ".terraform.d", "plugins")
	settings := filepath.Join(dir, "mirror.tfrc")
	rig.Must(t, os.WriteFile(settings, fmt.Appendf(nil, "provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror), 0o600))
	t.Setenv("HOME", home)
	t.Run("README", func(t *testing.T) {
		w := processWorldOf(t, func(world *state.World) { delete(world.Guests[9000].Config, "protection") })
		nothing := filepath.Join(dir, "nothing.tfrc") // the folder in HOME is found by itself
		rig.Must(t, os.WriteFile(nothing, nil, 0o600))
		lifeOfRelease(t, w, rig.NewWorkspace(t, w, nothing, map[string]string{"main.tf": readmeConfig(t)}), version)
	})
	t.Run("demonstration", func(t *testing.T) {
		w := processWorldOf(t, nil)
		files := map[string]string{"terraform.tfvars.json": demoVariables(t, w)}
		for _, name := range []string{"provider.tf", "web.tf"} {
			files[name] = rig.ReadFile(t, filepath.Join("..", "cmd", "demo", "configs", name))
		}
		lifeOfRelease(t, w, rig.NewWorkspace(t, w, settings, files), version)
	})
}

// processWorldOf is a cluster for programs, prepared beforehand.
func processWorldOf(t *testing.T, prepare func(*state.World)) *rig.World {
	t.Helper()
	w := rig.NewWorld(t, pvesim.Options{RealNetwork: true, Clock: clock.Real{}})
	if prepare != nil {
		w.Change(prepare)
		w.Mark()
	}
	return w
}

// lifeOfRelease goes from init to destroy, and wants init to have taken what was installed.
func lifeOfRelease(t *testing.T, w *rig.World, ws rig.Workspace, version string) {
	t.Helper()
	if said := ws.Says(t, "init"); !strings.Contains(said, "terraform-proxmox/proxmox v"+version) {
		t.Fatalf("init has not installed %s:\n%s", version, said)
	}
	lock := rig.ReadFile(t, filepath.Join(ws.Dir, ".terraform.lock.hcl"))
	if !regexp.MustCompile(`version += "` + regexp.QuoteMeta(version) + `"`).MatchString(lock) {
		t.Errorf("the lock file says:\n%s", lock)
	}
	cycle(t, []rig.Workspace{ws})
	w.MustBeClean(t)
}

// installAsREADME does what the README says to install an archive, to the letter.
func installAsREADME(t *testing.T, home, archive, version string) {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```sh\n([^`]*\\.terraform\\.d/plugins.*?)```").FindStringSubmatch(rig.ReadFile(t, filepath.Join(projectDir, "README.md")))
	if blocks == nil {
		t.Fatal("the README does not say how to install an archive")
	}
	script := blocks[1]
	for _, said := range [][2]string{{"version=0.1.0", "version=" + version}, {"platform=linux_amd64", "platform=" + releasePlatform()}} {
		if !strings.Contains(script, said[0]) {
			t.Fatalf("the README does not say %s:\n%s", said[0], script)
		}
		script = strings.ReplaceAll(script, said[0], said[1])
	}
	if host := os.Getenv("TF_ACC_PROVIDER_HOST"); host != "" {
		script = regexp.MustCompile(`plugins/[^/]+/`).ReplaceAllString(script, "plugins/"+host+"/")
	}
	work := t.TempDir()
	rig.Must(t, os.WriteFile(filepath.Join(work, filepath.Base(archive)), []byte(rig.ReadFile(t, archive)), 0o600))
	install := exec.CommandContext(t.Context(), "sh", "-e", "-u", "-c", script)
	install.Dir, install.Env = work, append(os.Environ(), "HOME="+home)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
}

// makeArchive builds the archive of this platform as .goreleaser.yml describes it.
func makeArchive(t *testing.T, dir, version string) string {
	t.Helper()
	d := describedRelease(t, version, releasePlatform())
	build := d.Builds[0]
	binary := filepath.Join(dir, build.Binary)
	args := append([]string{"build", "-o", binary, "-ldflags", strings.Join(build.Ldflags, " ")}, build.Flags...)
	cmd := exec.CommandContext(t.Context(), "go", append(args, ".")...)
	cmd.Dir, cmd.Env = projectDir, append(os.Environ(), build.Env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the provider: %v\n%s", err, out)
	}
	name := filepath.Join(dir, d.Archives[0].Name+".zip")
	file, err := os.Create(name)
	rig.Must(t, err)
	archive := zip.NewWriter(file)
	header := &zip.FileHeader{Name: build.Binary, Method: zip.Deflate}
	header.SetMode(0o755)
	entry, err := archive.CreateHeader(header)
	rig.Must(t, err)
	_, err = entry.Write([]byte(rig.ReadFile(t, binary)))
	rig.Must(t, err)
	rig.Must(t, archive.Close())
	rig.Must(t, file.Close())
	return name
}

// snapshotArchive holds the snapshot in dist/ to its description, and gives the archive of this platform; none if there is no snapshot.
func snapshotArchive(t *testing.T) (version, archive string) {
	t.Helper()
	dist := filepath.Join(projectDir, "dist")
	sums, err := filepath.Glob(filepath.Join(dist, "*_SHA256SUMS"))
	rig.Must(t, err)
	if len(sums) == 0 {
		return "", ""
	}
	version = regexp.MustCompile(`_([^_]+)_SHA256SUMS$`).FindStringSubmatch(sums[0])[1]
	listed := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(rig.ReadFile(t, sums[0])), "\n") {
		sum, name, _ := strings.Cut(line, "  ")
		listed[name] = sum
	}
	want := []string{describedRelease(t, version, releasePlatform()).Checksum.Extra[0].Name}
	for i, build := range describedRelease(t, version, releasePlatform()).Builds {
		for _, platform := range build.Targets {
			d := describedRelease(t, version, platform)
			want = append(want, d.Archives[i].Name+".zip")
			holdsOnly(t, filepath.Join(dist, d.Archives[i].Name+".zip"), d.Builds[i].Binary, platform)
		}
	}
	for _, name := range want {
		file := filepath.Join(dist, name)
		if _, err := os.Stat(file); os.IsNotExist(err) { // the manifest has another name in the repository
			file = filepath.Join(projectDir, "terraform-registry-manifest.json")
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(rig.ReadFile(t, file)))); listed[name] != sum {
			t.Errorf("%s: the sum is %s, listed is %q", name, sum, listed[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !slices.Contains(want, name) && !strings.HasSuffix(name, ".cdx.json") {
			t.Errorf("%s is listed in the sums, and is in no description", name)
		}
	}
	return version, filepath.Join(dist, describedRelease(t, version, releasePlatform()).Archives[0].Name+".zip")
}

// holdsOnly wants an archive to have the program under the name that is looked for, and the licence.
func holdsOnly(t *testing.T, archive, binary, platform string) {
	t.Helper()
	opened, err := zip.OpenReader(archive)
	rig.Must(t, err)
	defer opened.Close()
	if strings.HasPrefix(platform, "windows_") {
		binary += ".exe"
	}
	var names []string
	for _, file := range opened.File {
		names = append(names, file.Name)
	}
	slices.Sort(names)
	if want := []string{"LICENSE", binary}; !slices.Equal(names, want) {
		t.Errorf("%s has %v, want %v", filepath.Base(archive), names, want)
	}
}

// demoVariables are the values of the variables of the demonstration.
func demoVariables(t *testing.T, w *rig.World) string {
	t.Helper()
	host, port1, err := net.SplitHostPort(w.Sim.SSHAddressOf("pve1"))
	rig.Must(t, err)
	_, port2, err := net.SplitHostPort(w.Sim.SSHAddressOf("pve2"))
	rig.Must(t, err)
	text, err := json.Marshal(map[string]string{
		"endpoint": w.Sim.Endpoint(), "api_token": w.Sim.Credentials().Token, "ca_certificate": w.Sim.CAPEM(),
		"ssh_host": host, "ssh_port_pve1": port1, "ssh_port_pve2": port2,
		"ssh_private_key": string(w.Sim.SSHPrivateKeyPEM()), "ssh_known_hosts": string(w.Sim.SSHKnownHosts())})
	rig.Must(t, err)
	return string(text)
}
