package handle

import "maps"

// routes are all that the simulator gives a meaning to.
func routes() Routes {
	all := Routes{}
	for _, area := range []Routes{
		accessRoutes(), userRoutes(), clusterRoutes(), nodeRoutes(), taskRoutes(), poolRoutes(), haRoutes(), jobRoutes(),
		qemuRoutes(), containerRoutes(), agentRoutes(), snapshotRoutes(), storageRoutes(), firewallRoutes(), capabilityRoutes(), nodeFileRoutes(), firewallSetRoutes(),
	} {
		maps.Copy(all, area)
	}
	return all
}
