package handle

import "maps"

// areas are the routes by what they are about.
func areas() []Routes {
	return []Routes{
		accessRoutes(), roleRoutes(), userRoutes(), clusterRoutes(), nodeRoutes(), taskRoutes(), poolRoutes(),
		haRoutes(), haGroupRoutes(), haRuleRoutes(), jobRoutes(), backupRoutes(),
		qemuRoutes(), containerRoutes(), agentRoutes(), snapshotRoutes(), storageRoutes(), firewallRoutes(), capabilityRoutes(), nodeFileRoutes(),
		firewallSetRoutes(),
	}
}

// routes are all that the simulator gives a meaning to.
func routes() Routes {
	all := Routes{}
	for _, area := range areas() {
		maps.Copy(all, area)
	}
	return all
}
