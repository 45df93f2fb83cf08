package pve

import "context"

// TagsAreCaseSensitive tells whether the datacenter takes "Web" and "web" for two tags (tag-style of datacenter.cfg, pve-cluster
// DataCenterConfig.pm). Everybody may read it. PVE's default is no: it lower-cases tags. It is asked once per Client.
func (c *Client) TagsAreCaseSensitive(ctx context.Context) (bool, error) {
	return c.tags.get(ctx, c)
}

type datacenterWire struct {
	TagStyle struct {
		CaseSensitive flexBool `json:"case-sensitive"`
	} `json:"tag-style"`
}

// sharedTagStyle keeps the answer.
type sharedTagStyle struct {
	turn   turn // guards everything below
	exact  bool
	filled bool
}

func (s *sharedTagStyle) get(ctx context.Context, c *Client) (bool, error) {
	const op = "read the datacenter's options"
	if err := s.turn.take(ctx); err != nil {
		return false, &Error{Op: op, Message: err.Error(), Err: err}
	}
	defer s.turn.give()
	if s.filled {
		return s.exact, nil
	}
	w, err := fetch[datacenterWire](ctx, c, op, "/cluster/options", nil)
	if err != nil {
		return false, err
	}
	s.exact, s.filled = bool(w.TagStyle.CaseSensitive), true
	return s.exact, nil
}
