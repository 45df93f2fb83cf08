package handle

import "strings"

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
	Cut     bool   // phase after: done, but the connection must be dropped before the client learns of it
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
	out := Outcome{Exit: f(r)}
	op.Status = out.Exit
	s.inspectOp(op)
	if k := strike.After; k != nil && k.Fire() {
		s.Wait(k.Delay(), nil)
		k.Took()
		out.Cut = true
	}
	return out
}
