local KIND = 'fair:1'
