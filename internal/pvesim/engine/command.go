package engine

import (
	"errors"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
)

// Command is an SSH command line, reduced to what faults and tests see of it.
type Command struct {
	Node string
	Path string // the program's words: "qm unlock", "zfs destroy"
	Line string // as it was sent
	VMID int    // 0 if it is about none
}

// Outcome is how a command ended.
type Outcome struct {
	Exit    int
	Refusal string // phase before: for stderr; nothing was done
	// phase after, phase before without an answer, and a command that was killed: the connection must be dropped before
	// the client learns of its end
	Cut bool
}

// Run carries out an SSH command as an operation of the cluster: numbered, and met by faults like a request. f is
// called as root with the mutex held; a process that it forks has finished when Fork returns. f returns the exit
// status.
func (e *Engine) Run(c Command, f func(r *Request) int) Outcome {
	e.Enter()
	defer e.Leave()
	e.World.Lock()
	defer e.World.Unlock()
	e.Tick()
	params := map[string]string{"command": c.Line}
	if c.VMID != 0 {
		params["vmid"] = strconv.Itoa(c.VMID)
	}
	op, strike := e.Begin("SSH", c.Path, params, c.Node)
	op.Identity = "root@" + c.Node
	if k := strike.Before; k != nil && k.Fire() {
		e.Wait(k.Delay(), nil)
		k.Took()
		op.Status = 1
		if k.Status >= 595 { // no answer
			return Outcome{Exit: 1, Cut: true}
		}
		return Outcome{Exit: 1, Refusal: strings.TrimRight(k.Text("injected failure"), "\n") + "\n"}
	}
	params["node"] = c.Node
	r := &Request{
		W: e.World, Method: "SSH", Template: c.Path, Params: params, Auth: auth.Identity{ID: auth.RootUser,
			User: auth.RootUser}, Engine: e,
		Strike: strike.Task, Synchronous: true,
	}
	var out Outcome
	out.Exit, out.Cut = survive(r, f)
	op.Status = out.Exit
	e.InspectOp(op)
	if k := strike.After; k != nil && k.Fire() {
		e.Wait(k.Delay(), nil)
		k.Took()
		out.Cut = true
	}
	return out
}

// survive runs a command, and tells of one that was killed.
func survive(r *Request, f func(r *Request) int) (status int, died bool) {
	defer func() {
		if err := recover(); err != nil {
			if _, died = err.(Killed); !died {
				panic(err)
			}
			status = 137
		}
	}()
	return f(r), false
}

// Struck is where a fault meets a command that makes a volume by itself, without a task. One that is killed there
// cleans up after nothing.
func (r *Request) Struck() error {
	k := r.Strike
	if k == nil || !r.Synchronous || k.Phase != fault.Task && k.Phase != fault.KillTask || !k.Fire() {
		return nil
	}
	r.Engine.Wait(k.Delay(), nil)
	k.Took()
	if k.Phase == fault.KillTask {
		panic(Killed{})
	}
	return errors.New(k.Text("injected failure"))
}
