# By the id of the rule.
terraform import proxmox_ha_rule.licensed licensed-nodes
