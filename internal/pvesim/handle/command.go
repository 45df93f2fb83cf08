package handle

import (
	"errors"
	"strings"

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
	Cut     bool   // phase after, and a command that was killed: the connection must be dropped before the client learns of its end
}

// Run carries out an SSH command as an operation of the cluster: numbered, and met by faults like a request. f is called as
// root with the mutex held; what it forks has finished when Fork returns. f returns the exit status.
func (s *Server) Run(c Command, f func(r *Request) int) Outcome {
	s.enter()
	defer s.leave()
	s.world.Lock()
	defer s.world.Unlock()
	s.tick()
	params := map[string]string{"command": c.Line}
	if c.VMID != 0 {
		params["vmid"] = itoa(c.VMID)
	}
	op, strike := s.begin("SSH", c.Path, params, c.Node)
	op.Identity = "root@" + c.Node
	if k := strike.Before; k != nil && k.Fire() {
		s.Wait(k.Delay(), nil)
		k.Took()
		op.Status = 1
		return Outcome{Exit: 1, Refusal: strings.TrimRight(k.Text("injected failure"), "\n") + "\n"}
	}
	params["node"] = c.Node
	r := &Request{
		W: s.world, Method: "SSH", Template: c.Path, Params: params, Auth: Auth{ID: rootUser, User: rootUser}, Server: s,
		strike: strike.Task, synchronous: true,
	}
	var out Outcome
	out.Exit, out.Cut = survive(r, f)
	op.Status = out.Exit
	s.inspectOp(op)
	if k := strike.After; k != nil && k.Fire() {
		s.Wait(k.Delay(), nil)
		k.Took()
		out.Cut = true
	}
	return out
}

// survive runs a command, and tells of one that was killed.
func survive(r *Request, f func(r *Request) int) (status int, died bool) {
	defer func() {
		if err := recover(); err != nil {
			if _, died = err.(killed); !died {
				panic(err)
			}
			status = 137
		}
	}()
	return f(r), false
}

// struck is where a fault meets a command that makes a volume by itself, without a task. One that is killed there cleans up after nothing.
func (r *Request) struck() error {
	k := r.strike
	if k == nil || !r.synchronous || k.Phase != fault.Task && k.Phase != fault.KillTask || !k.Fire() {
		return nil
	}
	r.Server.Wait(k.Delay(), nil)
	k.Took()
	if k.Phase == fault.KillTask {
		panic(killed{})
	}
	return errors.New(k.Text("injected failure"))
}
