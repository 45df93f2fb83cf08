package shell

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/lifecycle"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/statistics"
)

// Shell is what one command line of root's does on a node: the tools that PVE brings along, on the same code as the
// API.
type Shell struct {
	r        *engine.Request
	in       io.Reader
	out, err io.Writer
}

// New gives a command that Server.Run carries out its node and its streams.
func New(r *engine.Request, in io.Reader, out, err io.Writer) *Shell { return &Shell{r, in, out, err} }

// tool is a program's subcommand. Its arguments are without the subcommand's own words and without options.
type tool func(s *Shell, args []string, opts map[string]string) int

func tools() map[string]tool {
	return map[string]tool{
		"qm unlock": (*Shell).qmUnlock, "qm destroy": (*Shell).qmDestroy, "qm status": (*Shell).qmStatus,
		"qm list": (*Shell).qmList, "qm config": (*Shell).qmConfig, "qm importdisk": (*Shell).qmImport,
		"qm disk import": (*Shell).qmImport, "qm stop": (*Shell).qmStop, "qm start": (*Shell).qmStart,
		"qm resume": (*Shell).qmResume, "qm unlink": (*Shell).qmUnlink,
		"qm set": (*Shell).qmSet, "qm cloudinit update": (*Shell).qmCloudinitUpdate,
		"pvesm list": (*Shell).pvesmList, "pvesm free": (*Shell).pvesmFree, "pvesm path": (*Shell).pvesmPath,
		"sha256sum": (*Shell).sha256sum, "rm": (*Shell).rm, "cat": (*Shell).cat, "tee": (*Shell).tee, "mkdir": (*Shell).mkdir,
		"zfs list": (*Shell).zfsList, "zfs destroy": (*Shell).zfsDestroy,
	}
}

// Words reduces a command to its program and subcommand ("qm disk import"), which is how faults and tests know it, and
// finds the VMID that it is about, 0 if none. rest is what follows. known is false for what the node has no program
// for.
func Words(args []string) (words string, vmid int, rest []string, known bool) {
	if args = Unprefixed(args); len(args) == 0 {
		return "", 0, nil, false
	}
	program := path.Base(args[0])
	for n := min(3, len(args)); n > 0; n-- {
		words = strings.Join(append([]string{program}, args[1:n]...), " ")
		if tools()[words] == nil {
			continue
		}
		rest = args[n:]
		for _, a := range rest {
			if id, ok := perl.ParseNumber(a); ok && program == "qm" {
				return words, id, rest, true
			}
			if m := ownerOf(a); m != 0 && program != "qm" {
				return words, m, rest, true
			}
		}
		return words, 0, rest, true
	}
	return program, 0, args[1:], false
}

// Unprefixed takes sudo from a command, which root needs not.
func Unprefixed(args []string) []string {
	if len(args) == 0 || args[0] != "sudo" {
		return args
	}
	args = args[1:]
	for len(args) > 0 && (args[0] == "-n" || args[0] == "--") {
		args = args[1:]
	}
	return args
}

// Reads reports whether a command reads its standard input.
func Reads(words string, rest []string) bool {
	return words == "tee" || words == "cat" && len(rest) == 0
}

// ownerOf reads the VMID out of a volume id or dataset name ("rpool/data/vm-100-disk-0").
func ownerOf(name string) int {
	base := name[strings.LastIndexAny(name, "/:")+1:]
	parts := strings.SplitN(base, "-", 3)
	if len(parts) < 3 || parts[0] != "vm" && parts[0] != "base" {
		return 0
	}
	n, _ := strconv.Atoi(parts[1])
	return n
}

// Execute runs the command and returns its exit status. words and rest are from Words.
func (s *Shell) Execute(words string, rest []string) int {
	args, opts := options(words, rest)
	return tools()[words](s, args, opts)
}

// options separates "--purge", "--format raw", "-H" from the arguments.
func options(words string, rest []string) (args []string, opts map[string]string) {
	opts = map[string]string{}
	takesValue := []string{"format", "vmid", "content", "delay", "target-disk", "timeout", "idlist",
		"o", "t", "d", "s", "S"}
	for i := 0; i < len(rest); i++ {
		a := rest[i]
		if a == "--" { // what follows are no options
			return append(args, rest[i+1:]...), opts
		}
		if !strings.HasPrefix(a, "-") || a == "-" {
			args = append(args, a)
			continue
		}
		name, value, given := strings.Cut(strings.TrimLeft(a, "-"), "=")
		switch {
		case given:
		case slices.Contains(takesValue, name) && i+1 < len(rest):
			i++
			value = rest[i]
		case words == "qm set" && i+1 < len(rest) && !strings.HasPrefix(rest[i+1], "-"): // options of a VM; all have a value
			i++
			value = rest[i]
		case strings.HasPrefix(words, "qm ") && i+1 < len(rest) && (rest[i+1] == "0" || rest[i+1] == "1"):
			i++
			value = rest[i]
		default:
			value = "1"
		}
		opts[name] = value
	}
	return args, opts
}

// fail prints an error the way PVE's command line tools do; they exit with -1.
func (s *Shell) fail(err error) int {
	_, _ = fmt.Fprintln(s.err, perl.Message(err))
	return 255
}

func (s *Shell) usage(words string) int {
	_, _ = fmt.Fprintf(s.err, "400 not enough arguments\n%s\n", words)
	return 255
}

// call runs an API method of the node as root, as qm and pvesm do, and prints the log of the task that it makes.
func (s *Shell) call(f engine.Func, params map[string]string) int {
	inner := *s.r
	inner.Params = maps.Clone(params)
	inner.Params["node"] = s.r.Node()
	data, err := f(&inner)
	if err != nil {
		return s.fail(err)
	}
	upid, _ := data.(string)
	task := s.r.W.Tasks[upid]
	if task == nil {
		return 0
	}
	for _, line := range task.Log {
		if !strings.HasPrefix(line, "TASK ") {
			_, _ = fmt.Fprintln(s.out, line)
		}
	}
	if task.ExitStatus != "OK" && !strings.HasPrefix(task.ExitStatus, "WARNINGS: ") {
		_, _ = fmt.Fprintln(s.err, task.ExitStatus)
		return 255
	}
	return 0
}

// target is the VMID in the first argument.
func (s *Shell) target(args []string) (int, bool) {
	if len(args) == 0 {
		return 0, false
	}
	return perl.ParseNumber(args[0])
}

func (s *Shell) qmUnlock(args []string, _ map[string]string) int {
	vmid, ok := s.target(args)
	if !ok {
		return s.usage("qm unlock <vmid>")
	}
	release, err := s.r.Engine.Flock(s.r.W, s.r.Node(), engine.GuestLock(vmid), false, engine.LockTimeout)
	if err != nil {
		return s.fail(err)
	}
	defer release()
	g, err := guest.LoadOn(s.r.W, s.r.Node(), vmid)
	if err != nil {
		return s.fail(err)
	}
	g.SetLock("", "")
	delete(g.Pending, "lock")
	return 0
}

func (s *Shell) qmDestroy(args []string, opts map[string]string) int {
	if _, ok := s.target(args); !ok {
		return s.usage("qm destroy <vmid> [OPTIONS]")
	}
	params := map[string]string{"vmid": args[0]}
	for _, k := range []string{"purge", "skiplock", "destroy-unreferenced-disks"} {
		if v, ok := opts[k]; ok {
			params[k] = v
		}
	}
	return s.call(lifecycle.Destroy, params)
}

func (s *Shell) qmSet(args []string, opts map[string]string) int {
	if _, ok := s.target(args); !ok {
		return s.usage("qm set <vmid> [OPTIONS]")
	}
	params := maps.Clone(opts)
	params["vmid"] = args[0]
	return s.call(config.Put, params)
}

// qmUnlink is an update that deletes options (qemu-server API2/Qemu.pm unlink).
func (s *Shell) qmUnlink(args []string, opts map[string]string) int {
	if _, ok := s.target(args); !ok || opts["idlist"] == "" {
		return s.usage("qm unlink <vmid> --idlist <string> [OPTIONS]")
	}
	params := map[string]string{"vmid": args[0], "delete": opts["idlist"]}
	if force, ok := opts["force"]; ok {
		params["force"] = force
	}
	return s.call(config.Put, params)
}

func (s *Shell) qmCloudinitUpdate(args []string, _ map[string]string) int {
	if _, ok := s.target(args); !ok {
		return s.usage("qm cloudinit update <vmid>")
	}
	return s.call(config.CloudinitUpdate, map[string]string{"vmid": args[0]})
}

func (s *Shell) qmStart(args []string, opts map[string]string) int {
	if _, ok := s.target(args); !ok {
		return s.usage("qm start <vmid> [OPTIONS]")
	}
	return s.call(power.Start, map[string]string{"vmid": args[0], "skiplock": opts["skiplock"]})
}

func (s *Shell) qmResume(args []string, _ map[string]string) int {
	if _, ok := s.target(args); !ok {
		return s.usage("qm resume <vmid> [OPTIONS]")
	}
	return s.call(power.Resume, map[string]string{"vmid": args[0]})
}

func (s *Shell) qmStop(args []string, opts map[string]string) int {
	if _, ok := s.target(args); !ok {
		return s.usage("qm stop <vmid> [OPTIONS]")
	}
	return s.call(power.Stop, map[string]string{"vmid": args[0], "skiplock": opts["skiplock"]})
}

func (s *Shell) qmStatus(args []string, _ map[string]string) int {
	vmid, ok := s.target(args)
	if !ok {
		return s.usage("qm status <vmid> [OPTIONS]")
	}
	g, err := guest.LoadOn(s.r.W, s.r.Node(), vmid)
	if err != nil {
		return s.fail(err)
	}
	status := "stopped"
	if g.Running != nil {
		status = "running"
	}
	_, _ = fmt.Fprintf(s.out, "status: %s\n", status)
	return 0
}

func (s *Shell) qmList(_ []string, _ map[string]string) int {
	header := false
	for _, id := range slices.Sorted(maps.Keys(s.r.W.Guests)) {
		g := s.r.W.Guests[id]
		if g.Type != "qemu" || g.Node != s.r.Node() {
			continue
		}
		if !header {
			header = true
			_, _ = fmt.Fprintf(s.out, "%10s %-20s %-10s %-10s %12s %-10s\n", "VMID", "NAME", "STATUS", "MEM(MB)", "BOOTDISK(GB)",
				"PID")
		}
		st, status, pid := statistics.Sample(g), "stopped", 0
		if g.Running != nil {
			status, pid = "running", g.Running.PID
		}
		_, _ = fmt.Fprintf(s.out, "%10d %-20s %-10s %-10d %12.2f %-10d\n", id, st.Name, status, st.Memory>>20,
			float64(st.Disk)/(1<<30), pid)
	}
	return 0
}

func (s *Shell) qmConfig(args []string, _ map[string]string) int {
	vmid, ok := s.target(args)
	if !ok {
		return s.usage("qm config <vmid> [OPTIONS]")
	}
	g, err := guest.LoadOn(s.r.W, s.r.Node(), vmid)
	if err != nil {
		return s.fail(err)
	}
	conf := config.Mask(g.Config)
	for _, k := range slices.Sorted(maps.Keys(conf)) {
		v := conf[k]
		if k == "description" {
			v = strings.ReplaceAll(v, "\n", "%0A") + "%0A"
		}
		_, _ = fmt.Fprintf(s.out, "%s: %s\n", k, v)
	}
	return 0
}
