// Command pvesim runs a simulated Proxmox VE cluster: HTTPS API, SSH server and a control plane for tests. "pvesim
// capture" makes a world for it of a real cluster.
//
// When it is ready it prints one line of JSON on stdout that says how to reach it, and runs until it is interrupted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// version is set by the linker of a release.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "pvesim:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) == 1 && strings.TrimLeft(args[0], "-") == "version" {
		_, err := fmt.Fprintln(os.Stdout, "pvesim", version)
		return err
	}
	if len(args) > 0 && args[0] == "capture" {
		return runCapture(ctx, args[1:], os.Getenv, os.Stdout, os.Stderr)
	}
	return run(ctx, args, os.Stdout)
}

// whileReading lets the heap grow by half before it is swept, not to twice its size: most of what reading a large world
// takes is not needed any more afterwards.
const whileReading = 50

// ready is the line that tells clients how to reach the cluster.
type ready struct {
	Endpoint          string `json:"endpoint"`
	CAFile            string `json:"ca_file"`
	APIToken          string `json:"api_token"`
	RootUsername      string `json:"root_username"`
	RootPassword      string `json:"root_password"`
	SSHAddress        string `json:"ssh_address"`   // of the first node
	SSHAddresses      string `json:"ssh_addresses"` // of all: "pve1=127.0.0.1:41001,pve2=127.0.0.1:41002"
	SSHPrivateKeyFile string `json:"ssh_private_key_file"`
	SSHKnownHostsFile string `json:"ssh_known_hosts_file"`
	Control           string `json:"control"`
}

// run serves until ctx ends. The files that the ready line names live in a temporary directory, which goes with it.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	usual := debug.SetGCPercent(whileReading)
	o, err := options(args)
	if err != nil {
		return err
	}
	sim, err := pvesim.New(o)
	if err != nil {
		return err
	}
	defer sim.Close()
	dir, err := os.MkdirTemp("", "pvesim-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	line, err := write(dir, sim)
	if err != nil {
		return err
	}
	debug.SetGCPercent(usual)
	debug.FreeOSMemory()
	if err := json.NewEncoder(out).Encode(line); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

const usage = `Usage: pvesim [flags]          a simulated Proxmox VE cluster, until it is interrupted
       pvesim capture [flags]  a look at a real cluster, as a world for it
       pvesim version

`

func options(args []string) (pvesim.Options, error) {
	o := pvesim.Options{RealNetwork: true, Clock: clock.Real{}}
	flags := flag.NewFlagSet("pvesim", flag.ContinueOnError)
	flags.Usage = func() {
		_, _ = fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:0", "`address` of the HTTPS API; port 0 takes a free one")
	flags.StringVar(&o.SSHListen, "ssh-listen", "127.0.0.1:0",
		"`address` of the first node's SSH server; the others have the next ports, or free ones for port 0")
	nodes := flags.String("nodes", "pve1,pve2", "comma-separated `names` of the cluster's nodes")
	flags.StringVar(&o.Profile, "profile", "8.4", "PVE `version` to act as: "+strings.Join(pvesim.Profiles(), ", "))
	world := flags.String("world", "", "YAML or JSON `file` that describes the cluster to start with")
	flags.DurationVar(&o.Latency, "latency", 0, "time added to every request")
	flags.IntVar(&o.Workers, "workers", 0,
		"`number` of requests that are in service at a time, like the three workers of pvedaemon; "+
			"0: no limit")
	flags.BoolVar(&o.Internet, "internet", false, "let downloads leave this machine")
	flags.DurationVar(&o.TaskTime, "task-time", 0, "time that a task takes")
	faults := flags.String("faults", "",
		"JSON `file` with faults that are in force from the start, in the form of PUT /_sim/faults")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *faults != "" {
		if err := readFaults(*faults, &o); err != nil {
			return o, err
		}
	}
	set := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if *world != "" {
		if set["nodes"] {
			return o, errors.New("give either the nodes or a world that has its own")
		}
		document, err := os.ReadFile(*world)
		if err != nil {
			return o, err
		}
		if o.World, err = state.Read(document); err != nil {
			return o, fmt.Errorf("%s: %w", *world, err)
		}
		if o.World.Profile != "" && !set["profile"] {
			o.Profile = o.World.Profile
		}
		return o, nil
	}
	for _, name := range strings.Split(*nodes, ",") {
		if name = strings.TrimSpace(name); name != "" {
			o.Nodes = append(o.Nodes, name)
		}
	}
	if len(o.Nodes) == 0 {
		return o, errors.New("no nodes given")
	}
	if o = o.ForGuides(); o.Internet {
		o.Web = nil
	}
	return o, nil
}

// readFaults reads what is to go wrong.
func readFaults(file string, o *pvesim.Options) error {
	document, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return err
	}
	if o.Faults, err = fault.Read(document); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func write(dir string, sim *pvesim.Sim) (ready, error) {
	c := sim.Credentials()
	line := ready{
		Endpoint: sim.Endpoint(), APIToken: c.Token, RootUsername: c.RootUsername, RootPassword: c.RootPassword,
		SSHAddress: sim.SSHAddress(), SSHAddresses: strings.Join(sim.SSHAddresses(), ","), Control: sim.Endpoint() + "/_sim",
		CAFile:            filepath.Join(dir, "ca.pem"),
		SSHPrivateKeyFile: filepath.Join(dir, "id_root"),
		SSHKnownHostsFile: filepath.Join(dir, "known_hosts"),
	}
	if line.APIToken == "" {
		line.APIToken = firstToken(sim)
	}
	for name, content := range map[string][]byte{
		line.CAFile: []byte(sim.CAPEM()), line.SSHPrivateKeyFile: sim.SSHPrivateKeyPEM(),
		line.SSHKnownHostsFile: sim.SSHKnownHosts(),
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return line, err
		}
	}
	return line, nil
}

// firstToken is the first token of a world that has not the default identities; "" if it has none.
func firstToken(sim *pvesim.Sim) string {
	w := sim.World()
	w.Lock()
	defer w.Unlock()
	for _, id := range slices.Sorted(maps.Keys(w.Tokens)) {
		return id + "=" + w.Tokens[id].Secret
	}
	return ""
}
