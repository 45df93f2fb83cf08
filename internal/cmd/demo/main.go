// Demo tells what the provider is for on a simulated cluster, in about a minute: apply, failure, rollback, retry, change,
// import, destroy. Each claim is checked against the cluster itself; one that does not hold makes the exit status 1.
//
// It runs Terraform or OpenTofu from PATH (TF_CLI names another), else one that it installs into .tools/ of this
// project, else the same configurations through the plugin protocol without any Terraform.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

func main() {
	inProcess := flag.Bool("in-process", false, "use no Terraform even if there is one")
	verbose := flag.Bool("v", false, "print all that Terraform prints")
	picture := flag.Bool("picture", false, "draw the README's picture of a failed create; BENCH_PEER is a binary of bpg's provider")
	peerVersion := flag.String("peer-version", "", "the version of BENCH_PEER")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	cluster := pvesim.Options{RealNetwork: true, Clock: clock.Real{}, TaskTime: 150 * time.Millisecond}
	var err error
	if *picture {
		err = takePicture(ctx, os.Stdout, pictureOptions{peer: os.Getenv("BENCH_PEER"), peerVersion: *peerVersion, day: today(),
			cluster: cluster})
	} else {
		err = run(ctx, os.Stdout, options{inProcess: *inProcess, verbose: *verbose, cluster: cluster})
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// options say how the story is told.
type options struct {
	inProcess, verbose bool
	cluster            pvesim.Options
}

func run(ctx context.Context, out io.Writer, o options) (err error) {
	world, err := rig.OpenWorld(o.cluster)
	if err != nil {
		return fmt.Errorf("start the simulated cluster: %w", err)
	}
	defer world.Close()
	dir, err := os.MkdirTemp("", "proxmox-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	eng, err := chooseEngine(ctx, out, o, world, dir)
	if err != nil {
		return err
	}
	begin := time.Now()
	s := &story{out: out, world: world, engine: eng, verbose: o.verbose}
	s.tell(ctx)
	if len(s.untrue) > 0 {
		return fmt.Errorf("%d of %d claims are untrue", len(s.untrue), s.claims)
	}
	fmt.Fprintf(out, "\nAll %d claims hold (%.0f s).\n", s.claims, time.Since(begin).Seconds())
	return nil
}
